"""How property tests are run: alike in every run, and without a clock."""

from __future__ import annotations

import hypothesis

# No deadline and no health check of speed: a busy machine may stop any example for a second. The same examples in every
# run: a change is judged, not the draw. To hunt with others: pytest --hypothesis-profile default --hypothesis-seed N
hypothesis.settings.register_profile(
    "envbuild", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("envbuild")
