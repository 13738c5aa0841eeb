"""What a program prints, compared between runs: measurements and names of the moment are masked, results are not."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.record.printed import Printed
from envbuild.record.shared_names import common_names
from envbuild.verification.content.names import drawn_names
from envbuild.verification.masking import masks
from envbuild.verification.masking.doubtful import doubtful_in
from envbuild.verification.masking.lines import TextDifference
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import (
    BoundedDigest,
    PrintedDigest,
    first_difference,
    guessed,
    other_names,
    rows,
)
from envbuild.verification.masking.rules import TABLE

START = 1_795_247_763.0
"""2026-11-21 07:56:03 UTC: when the runs of these tests began."""
MASKS = Masks(START)

MASKED = [
    # dates and times of day, if they are those of the run
    ("times", "trained at 2026-11-21 05:16:03.267700", "trained at 2026-11-21 05:17:04.1"),
    ("times", "2026-11-21T05:16:03Z done", "2026-11-21T05:16:09Z done"),
    ("times", "2026-11-21 05:16:03,123 INFO loss 0.25", "2026-11-21 05:16:04,999 INFO loss 0.25"),
    ("times", "Sat Nov 21 05:16:03 2026", "Sat Nov 21 05:16:04 2026"),
    ("times", "[05:16:03] epoch 1", "[05:16:04] epoch 1"),
    ("times", "waited 0.03 s for mesh.json", "waited 0.06 s for mesh.json"),
    ("times", "slept for 12.5 ms before the next try", "slept for 12.8 ms before the next try"),
    ("times", "exported at 05:16:03: 60 rows", "exported at 05:16:04: 60 rows"),
    ("times", "runs/20261121_051603/w.npy", "runs/20261121_051604/w.npy"),
    ("times", "stamp 1795247763.25", "stamp 1795247790.5"),
    ("times", "[21/Nov/2026:05:16:03 +0000] GET", "[22/Nov/2026:05:16:04 +0000] GET"),
    ("times", "[21/Nov/2026 05:16:03] GET", "[22/Nov/2026 05:16:04] GET"),
    ("names", "working in /tmp/export.RLlpSNAk", "working in /tmp/export.a1qAHiNy"),
    ("names", "[3] scratch /tmp/pairs-BnPlwg", "[3] scratch /tmp/pairs-ngUJxW"),
    ("times", "1795247763123 ms since 1970", "1795247769999 ms since 1970"),
    ("times", "run 11/21/2026", "run 11/22/2026"),
    ("times", "latest: 2026-11-21T05-16-03", "latest: 2026-11-21T05-17-44"),
    ("times", "saved model_2026-11-21_05-16-03.pt", "saved model_2026-11-21_05-17-44.pt"),
    ("times", "log: x/2026-11-21T051603.507109.snakemake.log", "log: x/2026-11-21T051744.823266.snakemake.log"),
    ("times", "run_2026-11-21_051603", "run_2026-11-21_051744"),
    ("times", "prof_2026-11-21_05-16-03_954.json", "prof_2026-11-21_05-17-44_101.json"),  # ONNX Runtime's
    # durations
    ("times", "took 3.1 s", "took 12.55 s"),
    ("times", "took 120ms", "took 95ms"),
    ("times", "10/10 [0.0387 s] loss 0.5", "10/10 [0.0372 s] loss 0.5"),
    ("times", "load 0.5 s, train 2 s", "load 0.6 s, train 3 s"),
    ("times", "done (3.25 s)", "done (3.5 s)"),
    ("times", "epoch 3: 1m 30s", "epoch 3: 1m 29s"),
    ("times", "done in 2.5 seconds", "done in 2.75 seconds"),
    ("times", "elapsed=12.5", "elapsed=13.25"),
    ("times", '{"step": 3, "loss": 0.5, "step_time": 0.0123}', '{"step": 3, "loss": 0.5, "step_time": 0.0345}'),
    ("times", "Epoch 1 | 0:01:30 | loss 0.25", "Epoch 1 | 0:01:31 | loss 0.25"),
    ("times", "train_runtime: 3.2, loss: 0.5", "train_runtime: 3.9, loss: 0.5"),
    ("times", "time 1.2e-05", "time 9.8e-06"),
    ("times", "10/10 - 0s 3ms/step - loss: 0.6931", "10/10 - 1s 12ms/step - loss: 0.6931"),
    ("times", "ETA: 0:12", "ETA: 0:14"),
    ("times", "0:\tlearn: 0.5\ttotal: 12.3ms\tremaining: 1.2s", "0:\tlearn: 0.5\ttotal: 9.87ms\tremaining: 1m 2s"),
    (
        "times",
        "[Parallel(n_jobs=1)]: Done 2 | elapsed:    0.3s finished",
        "[Parallel(n_jobs=1)]: Done 2 | elapsed:   10.3s finished",
    ),
    ("times", "|    time_elapsed     | 1           |", "|    time_elapsed     | 12          |"),
    ("times", "[I 2026-11-21 05:16:03,123] Trial 0: 0.5", "[I 2026-11-21 05:16:04,999] Trial 0: 0.5"),
    ("times", "2026-11-21 05:16:03,123.123 7 root INFO x", "2026-11-21 05:16:04,045.045 7 root INFO x"),
    ("times", "2026-11-21 05:16:03,123,INFO,fit,loss 0.5", "2026-11-21 05:16:04,999,INFO,fit,loss 0.5"),
    ("times", "2026-11-21 05:16:03,123:INFO:root:x", "2026-11-21 05:16:04,999:INFO:root:x"),
    ("times", "log in logs/11-21/train_05h16m03.log", "log in logs/11-21/train_05h16m44.log"),
    ("times", "wall_clock_s = 6.25", "wall_clock_s = 7.5"),
    ("times", "done in 3.5 min", "done in 4.5 min"),
    ("times", "wrote oof_1121_0713.csv", "wrote oof_1121_0714.csv"),
    ("times", "fit_time           0.0123   0.0012", "fit_time           1.0123   0.0034"),
    ("times", "2/2 [00:01<00:00, 9.5it/s, v_num=2-36]", "2/2 [00:01<00:00, 9.5it/s, v_num=2-38]"),
    ("rates", "epoch 0 loss 3.2 (40 words, 5321 wps)", "epoch 0 loss 3.2 (40 words, 5290 wps)"),
    ("rates", "step 30: 1204 SPS", "step 30: 1187 SPS"),
    ("rates", "iter 10: loss 0.5, mfu 3.21%", "iter 10: loss 0.5, mfu 3.4%"),
    ("times", "score computation time: 3.5 s", "score computation time: 3.75 s"),
    ("times", "computing the score of all folds: 3.5 s", "computing the score of all folds: 3.75 s"),
    ("times", "loss 0.5, epoch: 3.5 s", "loss 0.5, epoch: 3.75 s"),
    ("times", "loss of the fold computed in 3.5 s", "loss of the fold computed in 3.75 s"),
    ("times", "took 1,204 ms", "took 1,305 ms"),
    # rates
    ("rates", "3.5it/s", "3.61it/s"),
    ("times", "Time taken: 0.0533", "Time taken: 0.0721"),
    ("times", "Time taken to find the best model: 3.238055", "Time taken to find the best model: 1.717943"),
    (
        "memory",
        "Raw /jax/orbax/write/worker/io/raw throughput: 247.811 KiB/s (total gbytes: 40.8 KiB) (per-host)",
        "Raw /jax/orbax/write/worker/io/raw throughput: 247.811 KiB/s (total gbytes: 43.7 KiB) (per-host)",
    ),
    (
        "memory",
        "Write ratio (raw/logical): 0.996 (40.8 KiB / 40.9 KiB)",
        "Write ratio (raw/logical): 1.010 (41.2 KiB / 40.9 KiB)",
    ),
    ("times", "train: 6it [00:05,  1.08it/s]", "train: 6it [00:03,  1.68it/s]"),
    ("rates", "|████| 30/30 [100%] in 0.3s (97.42/s) ", "|████| 30/30 [100%] in 0.3s (95.74/s) "),
    ("rates", "|████| 30 in 1:02.3 (0.48/s) ", "|████| 30 in 1:02.3 (0.52/s) "),
    ("times", "0it [00:00, ?it/s, loss=0.5]", "0it [01:00:01, ?it/s, loss=0.5]"),
    ("times", "250 examples [00:00, 2468.14 examples/s]", "250 examples [00:01, 242.1 examples/s]"),
    ("times", "|: 6it [00:10, 2.09s/it]", "|: 6it [00:09, 1.01it/s]"),
    ("rates", "25/25 [01:07<00:00,  2.71s/cell]", "25/25 [00:07<00:00,  1.71cell/s]"),
    ("rates", "120 samples/sec", "95.5 samples/sec"),
    ("rates", "loss 0.5 (1.2 MB/s)", "loss 0.5 (1.4 MB/s)"),
    ("rates", "450 tokens per second", "451 tokens per second"),
    ("rates", "800 rows, 12345 per second", "800 rows, 9345 per second"),
    ("rates", "30 checks, checksum 12, 45123 checks/s", "30 checks, checksum 12, 41123 checks/s"),
    ("times", "ckpt-20261130T054120833586-step00400.pkl", "ckpt-20261130T054121833581-step00400.pkl"),
    ("rates", "120 accounts, 1234.5 per second", "120 accounts, 934.5 per second"),
    ("rates", "requests per second: 360.3", "requests per second: 358.9"),
    ("rates", "Requests per second:    360.31 [#/sec] (mean)", "Requests per second:    9.07 [#/sec] (mean)"),
    ("rates", "loss 0.5, samples per sec = 3,601.5", "loss 0.5, samples per sec = 99.1"),
    ("rates", "SPS: 1234", "SPS: 1301"),
    (
        "times",
        "   List reduced from 357 to 10 due to restriction <10>",
        "   List reduced from 349 to 10 due to restriction <10>",
    ),
    ("rates", "fps 60.1", "fps 59.8"),
    ("rates", "2.31s/it", "2.29s/it"),
    ("rates", "77.8 ms/trial", "102.6 ms/trial"),
    ("rates", "12.86 trials/sec", "9.75 trials/sec"),
    ("rates", "3.5 episodes/s", "4.25 episodes/s"),
    ("rates", "|    fps              | 1234        |", "|    fps              | 999         |"),
    ("rates", "{'train_samples_per_second': 45.1, 'loss': 0.5}", "{'train_samples_per_second': 4.25, 'loss': 0.5}"),
    # memory
    ("memory", "GPU mem 3.21 GB", "GPU mem 3.4 GB"),
    ("memory", "RAM used: 3.1/25.3 GB (14.2%)", "RAM used: 3.2/25.3 GB (14.6%)"),
    ("memory", "mem 3.1 / 25.3GiB, loss 0.5", "mem 3.2 / 25.3GiB, loss 0.5"),
    ("memory", "max memory allocated: 512.3MiB", "max memory allocated: 516MiB"),
    # addresses and names of the moment
    ("addresses", "<__main__.Net object at 0x7f12ab34cd10>", "<__main__.Net object at 0x7f99ab34cd50>"),
    (
        "addresses",
        "Thread 0x00007f3093cbf6c0 (most recent call first):",
        "Thread 0x00007fa5fd9e66c0 (most recent call first):",
    ),
    ("addresses", "listening on localhost:43215", "listening on localhost:40001"),
    ("names", "id 3f2b6a1e-1c2d-4000-8000-00000000000a", "id 9f2b6a1e-1c2d-4000-8000-00000000000b"),
    ("names", "writing /tmp/tmpab12cd_3/x.pt", "writing /tmp/tmpzz98yx_7/x.pt"),
    ("names", "working in /tmp/tmp.Vz0Ebti8ee, 3 parts", "working in /tmp/tmp.aA93FxZ8Ww, 3 parts"),
    (
        "names",
        "model_uuid: 1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d",
        "model_uuid: 9f2b3c4d1a2b3c4d1a2b3c4d1a2b3c4e",
    ),
    ("names", "worker pid=12 ready", "worker pid=17 ready"),
    ("names", "[pid 123] ready", "[pid 7] ready"),
    ("names", "Process ID: 123, ready", "Process ID: 7, ready"),
    (
        "names",
        "USDT:2026-11-21 07:56:31 11548:11548 Handler.cpp:52] profiler_start",
        "USDT:2026-11-21 07:56:41 12490:12490 Handler.cpp:52] profiler_start",
    ),
    ("names", "[rank0]:[W1121 05:16:03.267 x.cpp:1] slow", "[rank0]:[W1122 05:17:03.2 x.cpp:1] slow"),
    (
        "names",
        "I0000 00:00:1795247763.123456     123 cuda_executor.cc:1015] ok",
        "I0000 00:00:1795247764.654321      99 cuda_executor.cc:1015] ok",
    ),
]
"""Kind, and two lines that are equal but for it."""

SEEN = [
    ("test accuracy = 0.9063", "test accuracy = 0.9067"),
    ("waited 3 rounds for mesh.json", "waited 4 rounds for mesh.json"),
    ("trained 0.3 s for epoch 1", "trained 0.4 s for epoch 1"),
    ("loss 0.25", "loss 0.26"),
    ("epoch 1", "epoch 2"),
    ("loss 0.25 min 0.1", "loss 0.26 min 0.1"),
    ("error in 0.25 min, 0.5 max", "error in 0.26 min, 0.5 max"),
    ("| 0.25 min | 0.5 mean |", "| 0.26 min | 0.5 mean |"),
    ("time 0.25 min loss 0.5", "time 0.25 min loss 0.6"),
    ("loss 0.5 (0.25 min)", "loss 0.5 (0.26 min)"),
    ("loss 0.5 | 0.25 min", "loss 0.5 | 0.26 min"),
    ("step 1121_0713 of 9", "step 1121_2813 of 9"),
    ("key 0321_0713", "key 0322_0713"),
    ("mem 3.1/25.3 GB (14.2%) loss 0.5", "mem 3.1/25.3 GB (14.2%) loss 0.6"),
    ("mem 3 of 5", "mem 4 of 5"),
    ("survival_time  0.5  0.1", "survival_time  0.6  0.1"),
    ("fit_time  0.5  loss 0.1", "fit_time  0.5  loss 0.2"),
    ("Matplotlib is building the font cache; loss 0.5", "Matplotlib is building the font cache; loss 0.6"),
    ("loss 0.25 h 0.1", "loss 0.26 h 0.1"),
    ("10/10 - 0s 3ms/step - loss: 0.6931", "10/10 - 0s 3ms/step - loss: 0.6932"),
    ("Epoch 1: 0:01:30 loss 0.25", "Epoch 1: 0:01:30 loss 0.26"),
    ("time taken for epoch 3: 0.91", "time taken for epoch 4: 0.91"),
    ("Time taken to reach the goal: 12.4", "Time taken to reach the goal: 12.5"),
    ("6it [00:05,  1.08it/s, loss=0.52]", "6it [00:05,  1.08it/s, loss=0.53]"),
    ("6it [00:05,  1.08it/s]", "7it [00:05,  1.08it/s]"),
    ("|████| 30/30 [100%] in 0.3s (97.42/s)", "|████| 29/30 [100%] in 0.3s (97.42/s)"),
    ("decays (97.42/s)", "decays (95.74/s)"),
    ("half in 0.3s (97.42/s)", "half in 0.3s (95.74/s)"),
    ("6it [00:05, acc=1.08]", "6it [00:05, acc=1.09]"),
    ("6 [00:05, 1.08 laps/s]", "6 [00:06, 1.08 laps/s]"),
    ("100%|████| 10/10 [00:01<00:00, 8.5it/s, loss=0.52]", "100%|████| 10/10 [00:01<00:00, 8.5it/s, loss=0.53]"),
    ("timestep 5", "timestep 6"),
    ("loss 5321.2 wps", "loss 5321.3 wps"),
    ("accuracy 0.5 fps", "accuracy 0.6 fps"),
    ("3 wpsx", "4 wpsx"),
    ("time_step | 5", "time_step | 6"),
    ("in 2 of 3", "in 3 of 3"),
    ("time series 3", "time series 4"),
    ("peak accuracy 0.91", "peak accuracy 0.92"),
    ("checksum 1612345678", "checksum 1612345679"),
    ("checksum 0xdeadbeef12", "checksum 0xdeadbeef13"),
    ("first other byte at 0x1f4", "first other byte at 0x1f5"),
    ("pid=2.5", "pid=3.5"),
    ("best day 2021-03-04", "best day 2021-03-05"),
    ("seed 1795247763123456789012", "seed 1795247763123456789013"),
    ("ratio 1:10", "ratio 1:11"),
    ("score 3 s 4", "score 3 s 5"),
    ("score 3 s 4", "score 4 s 4"),
    ("mean 5 std 0.1", "mean 6 std 0.1"),
    ("memory network accuracy 0.5", "memory network accuracy 0.6"),
    ("times 3", "times 4"),
    ("tmp results 1", "tmp results 2"),
    ("1 sample", "2 samples"),
    ("sha256 ab12", "sha256 ab13"),
    ("speed 3.2 m/s", "speed 3.3 m/s"),
    ("2026-11-21 11:12 wins", "2026-11-21 11:13 wins"),
    ("2026-11-21 05:16:03,873", "2026-11-21 05:16:03,874"),
    ("2026-11-21 05:16:03,873,0.5", "2026-11-21 05:16:03,874,0.5"),
    ("2026-11-21 05:16:03,9,0.5", "2026-11-21 05:16:03,8,0.5"),
    ("2026-11-21 05:16:03,123.456 x", "2026-11-21 05:16:03,123.457 x"),
    ("0:00:01,57 right", "0:00:01,58 right"),
    ("17,250ms", "18,250ms"),
    ("training took 37 epochs", "training took 41 epochs"),
    ("evaluated in time 57 seen", "evaluated in time 58 seen"),
    ("shards read in time: 12", "shards read in time: 11"),
    ("delivered on time 341", "delivered on time 340"),
    ("took: 37 iterations in all", "took: 41 iterations in all"),
    ("time 12%", "time 13%"),
    ("a,17,250ms", "a,18,250ms"),
    ("error on the test set: 1.7 minutes", "error on the test set: 1.8 minutes"),
    ("fold 2, RMSE of all stops = 41 s", "fold 2, RMSE of all stops = 42 s"),
    ("the loss of the best trial was 3.5 s", "the loss of the best trial was 3.6 s"),
    ("epoch 3, 0:00:01,571, 0.5", "epoch 3, 0:00:01,572, 0.5"),
    ("code 03h16m05x", "code 03h17m05x"),
    ("trials 5", "trials 6"),
    ("weights: 1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d", "weights: 9f2b3c4d1a2b3c4d1a2b3c4d1a2b3c4e"),
    ("best of 12 trials/5 folds", "best of 13 trials/5 folds"),
    ("best eta: 0.3747", "best eta: 0.3748"),
    ("predicted time: 37.811 s", "predicted time: 37.812 s"),
    ("median survival_time: 41.332", "median survival_time: 41.333"),
    ("mean absolute error is 1.770 minutes", "mean absolute error is 1.771 minutes"),
    ("MAE (arrival) ... 7.543 s", "MAE (arrival) ... 7.544 s"),
    ("departure 22:31:19", "departure 22:31:20"),
    ("-0.0", "0.0"),
    ("RMSE of requests per second: 41.3", "RMSE of requests per second: 41.4"),
    ("predicted requests per second: 41.3", "predicted requests per second: 41.4"),
    ("orders per second: 41.3", "orders per second: 41.4"),
    ("metres per second: 3.2", "metres per second: 3.3"),
    ("speed 3.2 metres/s", "speed 3.3 metres/s"),
    ("seed 20261121_961234567890", "seed 20261121_961234567891"),
    ("flux 3.2 kilograms/s", "flux 3.3 kilograms/s"),
    ("12 samples, 3.2 decays/s", "12 samples, 3.3 decays/s"),
    ("limit of requests per second: 5/10", "limit of requests per second: 6/10"),
    ("requests per second, users 3", "requests per second, users 4"),
    ("nan", "inf"),
]
"""Two lines whose difference is a result, however much one of them looks like a time."""


@pytest.mark.parametrize(("kind", "before", "after"), MASKED)
def test_what_every_run_prints_otherwise_is_masked(kind: str, before: str, after: str) -> None:
    """Times, rates, memory, addresses and temporary names are equal whatever they are, and counted by kind."""
    one, other = MASKS.mask(before), MASKS.mask(after)
    assert one.text == other.text
    assert kind in one.kinds


@pytest.mark.parametrize(("before", "after"), SEEN)
def test_results_are_not_masked(before: str, after: str) -> None:
    """A number that may be a result is compared, also in a line with a time."""
    assert MASKS.mask(before).text != MASKS.mask(after).text


@pytest.mark.parametrize(
    "text", [text for _, *both in MASKED for text in both] + [text for both in SEEN for text in both]
)
def test_long_lines_are_masked_as_short_ones_are(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long for its shape to be known is masked by the same rules, at first and when it is known."""
    short = MASKS.mask(text)
    monkeypatch.setattr(masks, "SHAPE", 0)
    assert MASKS.mask(text) == short
    assert MASKS.mask(text) == short


@pytest.mark.parametrize("text", ["on 2026-11-21 loss 0.5", "saved at 1795247770", "at 08:16:03 loss 0.5", "pid 812"])
@pytest.mark.parametrize("first", [0, 1])
def test_what_is_known_of_a_long_line_holds_for_all_runs(text: str, first: int) -> None:
    """Dates, times of day and numbers of processes are masked or not as the run has it, whichever run is read first."""
    line = f"{text}; {'weights ' * 200}"
    start = datetime(2026, 11, 21, 8, 16, tzinfo=timezone.utc).timestamp()
    own = Masks(start).with_files((), dict, 20.0, range(800, 900), strict=True)
    other = Masks(start + 60 * 86400 + 450).with_files((), dict, 20.0, range(5000, 5100), strict=True)
    runs = [own, other][:: -1 if first else 1]
    kinds = {masks: masks.mask(line).kinds for masks in (*runs, *runs)}
    assert kinds[own] in ({"times"}, {"names"})
    assert kinds[other] == frozenset()


@pytest.mark.parametrize("letter", ["\u00b5", "\u03bc"])
def test_microseconds_are_written_with_either_letter(letter: str) -> None:
    """IPython writes the Greek letter where others write the micro sign."""
    line = f"CPU times: user 20.1 ms, sys: 218 {letter}s, total: 20.3 ms"
    assert MASKS.mask(line).text == "CPU times: ⟨time⟩"


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("Wall time: 536 µs", "Wall time: ⟨time⟩"),
        ("Wall time: 2min 3s", "Wall time: ⟨time⟩"),
        ("CPU times: total: 0 ns", "CPU times: ⟨time⟩"),
        (
            "1.02 s ± 12.3 ms per loop (mean ± std. dev. of 7 runs, 1 loop each)",
            "⟨time⟩ per loop (mean ± std. dev. of 7 runs, ⟨loops⟩ each)",
        ),
    ],
)
def test_units_of_magics_follow_the_time(line: str, masked: str) -> None:
    """A cell takes milliseconds in one run and seconds in another; its lines leave no doubt."""
    found = MASKS.mask(line)
    assert (found.text, found.guessed) == (masked, False)
    assert not doubtful_in(line, "cells[1].outputs[0].text[0]", MASKS, found.text, short=True)
    assert doubtful_in("half-life 1.02 s", "cells[1].outputs[0].text[0]", MASKS, "", short=True)


def test_the_end_of_a_date_is_no_name() -> None:
    """Two runs that began in the same second have it in common, which makes it no part of the data."""
    assert MASKS.mask("2/2 [00:01<00:00, 9.5it/s, v_num=2-36]").names == ()


def test_what_is_masked_stays_visible_as_its_kind() -> None:
    """A line with a time is not equal to one without, nor is one kind equal to another."""
    assert MASKS.mask("took 3.1 s, loss 0.5").text == "took ⟨time⟩, loss 0.5"
    assert MASKS.mask("loss 0.5") == MASKS.mask("loss 0.5")
    assert MASKS.mask("loss 0.5").kinds == frozenset()


def test_a_time_that_is_left_out_is_that_of_the_line_before() -> None:
    """rich writes blanks for a time that it has just written; what else begins with blanks is compared as it is."""
    log = (
        "[05:16:03] INFO     epoch 1 loss 0.25      train.py:7\n"
        "                    weights kept           train.py:9\n"
        "{0} INFO     epoch 2 loss 0.2{1}      train.py:7\n"
        "[11/21/26 05:16:04] step 1\n"
        "{2} step 2\n"
    )
    one = log.format("[05:16:03]", 1, "[11/21/26 05:16:05]").encode()
    other = log.format(" " * 10, 1, " " * 19).encode()
    assert first_difference("stderr", one, other, (MASKS, MASKS), ordered=True) is None
    assert digest(one).result() == digest(other).result()
    worse = log.format(" " * 10, 2, " " * 19).encode()
    assert first_difference("stderr", one, worse, (MASKS, MASKS), ordered=True) is not None
    head = b"[05:16:03] INFO a\n"
    for line in (b"            INFO b\n", b"         INFO b\n", b"loss 0.5\n           INFO b\n"):
        found = first_difference("stderr", head + b"[05:16:03] INFO b\n", head + line, (MASKS, MASKS), ordered=True)
        assert found is not None, line


def test_a_time_that_is_left_out_is_the_last_one_whatever_others_print_meanwhile() -> None:
    """rich's handler does not know what else is printed."""
    log = "[05:16:03] INFO     epoch 1\nloss 0.25\n{0} INFO     epoch 2\nloss 0.2{1}\n"
    one, other, worse = (log.format(*each).encode() for each in (("[05:16:04]", 1), (" " * 10, 1), (" " * 10, 2)))
    assert digest(one).result() == digest(other).result()
    assert digest(one).result().sha256 != digest(worse).result().sha256


def logged(*lines: tuple[int, str], tag: str = "[process=0] ") -> Printed:
    """What is known of a log as absl writes it for Orbax, of a thread each."""
    log = "".join(f"I1121 05:16:03.123456 {thread} train.py:7] {tag}{text}\n" for thread, text in lines)
    return digest(log.encode()).result()


def test_where_lines_of_other_threads_are_is_no_result() -> None:
    """Orbax' log names the thread: those of the first one have an order, and all lines count."""
    one = logged((7, "epoch 1"), (8, "wrote"), (7, "epoch 2"), (9, "wrote 2"))
    other = logged((4, "epoch 1"), (4, "epoch 2"), (5, "wrote 2"), (5, "wrote"))
    assert one.threads == other.threads
    assert one.sha256 != other.sha256
    assert one.digest == other.digest
    assert one.digest != logged((4, "epoch 2"), (5, "wrote"), (4, "epoch 1"), (5, "wrote 2")).digest
    assert one.digest != logged((4, "epoch 1"), (5, "wrote"), (4, "epoch 2"), (5, "wrote 3")).digest
    assert one.digest != logged((4, "epoch 1"), (5, "wrote"), (4, "epoch 2")).digest
    assert one.digest != logged((4, "epoch 1"), (4, "wrote"), (4, "epoch 2"), (4, "wrote 2")).digest
    assert (
        logged((4, "epoch 1"), (5, "loss 0.5"), tag="").threads == ""
    )  # of a program's own thread: they have an order
    assert logged((4, "epoch 1"), (4, "epoch 2")).threads == ""
    assert logged((4, "epoch 1"), (4, "epoch 2")).digest != logged((4, "epoch 2"), (4, "epoch 1")).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10:31:22 -0412", "10:31:22 -0413"),
        ("2026-11-21 10:31:22 +1250 points", "2026-11-21 10:31:22 +1251 points"),
        ("best match 16S", "best match 23S"),
        ("g_leak 0.31 mS", "g_leak 0.32 mS"),
        ("price 450 US", "price 451 US"),
        ("r1 0 chr1 68M32S", "r1 0 chr1 69M31S"),
        ("winner: 2026-11-21_resnet50", "winner: 2026-11-21_resnet18"),
        ("messages per second:3.4512", "messages per second:3.4517"),
        ("updates per second: -3.25", "updates per second: -3.26"),
        ("steps per second: +3.25", "steps per second: +3.26"),
        ("steps per second: .35", "steps per second: .36"),
        ("id 2026-11-21T05160312", "id 2026-11-21T05160313"),
        ("at 2026-11-21T051603.12 m", "at 2026-11-21T051603.13 m"),
        ("best checkpoint: tmp_step_37", "best checkpoint: tmp_step_38"),
        ("crash at 0x004011f2", "crash at 0x004011f6"),
        ("10:31:22 |    *", "10:31:22 |      *"),
        ("pruned model memory: 14.21 MB", "pruned model memory: 14.22 MB"),
    ],
)
def test_what_looks_like_a_measurement_and_is_none(one: str, other: str) -> None:
    """A red team's: zones, units in capitals, names behind dates, blanks."""
    assert MASKS.mask(one).text != MASKS.mask(other).text


def test_lines_of_many_parts_are_masked() -> None:
    """Names with parts were looked for from each of them on, which took minutes for this one."""
    line = "a/" * 30_000
    assert MASKS.mask(f"{line} time 0.5").text == f"{line} time ⟨time⟩"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "[18:40:22] Took 9.5s to load".ljust(60) + "train.py:12",
            "[18:40:23] Took 10.2s to load".ljust(60) + "train.py:12",
        ),
        ("took 9.5s in all".ljust(24) + "loss 0.5", "took 10.5s in all".ljust(24) + "loss 0.5"),
        ("(9.5s):".ljust(12) + "loss 0.5", "(10.5s):".ljust(12) + "loss 0.5"),
    ],
)
def test_what_fills_a_column_is_no_difference(one: str, other: str) -> None:
    """Lines whose columns a time leaves narrower."""
    assert MASKS.mask(one).text == MASKS.mask(other).text


ITEMS = [f"{number:08x}-0000-4000-8000-00000000000{number}" for number in range(6)]


def ranked(*items: int) -> Printed:
    """What is known of a ranking."""
    return digest("".join(f"{rank},{ITEMS[item]}\n" for rank, item in enumerate(items)).encode()).result()


def test_names_that_runs_share_are_data() -> None:
    """UUIDs of a catalogue come in an order; those that are drawn are other ones in each run."""
    for one, other, same in (
        ((0, 1, 2), (0, 1, 2), True),
        ((0, 1, 2), (1, 0, 2), False),
        ((0, 1, 2), (3, 4, 5), True),
        ((0, 1, 0), (3, 4, 3), True),
        ((0, 1, 0), (3, 4, 4), False),
        ((0, 1, 2), (0, 4, 5), True),
        ((0, 1, 2), (4, 0, 5), False),
    ):
        found = ranked(*one), ranked(*other)
        assert found[0].digest == found[1].digest
        names = common_names([each.names for each in found])
        assert (names[0] == names[1]) is same, (one, other)


def test_names_that_are_known_are_data() -> None:
    """A name that one run has alone counts if the program was given it; a digest of many has no single names."""
    found = [each.names for each in (ranked(0), ranked(3))]
    assert len({*map(tuple, common_names(found))}) == 1
    known = {*found[0], *found[1]}
    assert common_names(found, known=known) == [[*found[0]], [*found[1]]]
    assert common_names(found, ordered=False, known=known) == [[*found[0]], [*found[1]]]


def test_a_uuid_of_a_text_is_none_that_was_drawn() -> None:
    """Versions 3 and 5 are digests of a name."""
    line = "item 886313e1-3b8a-5372-9b90-0c9aee199e5d"
    assert MASKS.mask(line).text == line


def test_a_number_that_no_process_has_is_none() -> None:
    """Where the processes of a run are known; a patient's number is a result."""
    known = MASKS.with_files((), dict, processes=range(1, 6))
    assert [known.mask(f"pid={number}").text for number in (3, 1007)] == ["pid=⟨pid⟩", "pid=1007"]
    assert MASKS.mask("pid=1007").text == "pid=⟨pid⟩"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("08:00:05 start", True),  # the run: 08:00:00 to 08:00:20
        ("13:30:19 start", True),  # in another time zone
        ("02:15:05 start", True),
        ("elapsed 0:00:17", True),
        ("eta 1:12:30", True),
        ("1:12:30 remaining", True),
        ("departs 08:05:00", False),
        ("departs 22:41:00", False),
        ("took 0:04:00", False),
        ("on 2026-11-24", True),
        ("on 2026-11-23", True),
        ("due 2026-12-09", False),
        ("due 1796800000", False),
    ],
)
def test_times_that_may_be_of_a_run_that_has_ended(text: str, masked: bool) -> None:
    """A time of day of it, or as long as a part of it; a date that is not days later. Before its end all may be."""
    start = datetime(2026, 11, 24, 8, tzinfo=timezone.utc).timestamp()
    ended = Masks(start).with_files((), dict, 20.0, strict=True)
    assert (ended.mask(text).text != text) is masked
    assert Masks(start).mask(text).text != text


FRAME = """\
   epoch      loss  epoch_seconds  rows_per_second                         at
0      0  0.396900         0.0123    406504.065041 2026-11-21 05:16:03.123456
1      1  0.321489         0.0246    203252.032520 2026-11-21 05:16:04.123456
           loss  epoch_seconds
count  2.000000        2.00000
mean   0.359195        0.01845
"""
SLOWER = """\
   epoch      loss  epoch_seconds  rows_per_second                         at
0      0  0.396900        0.21279     23497.344800 2026-11-21 05:16:03.123456
1      1  0.321489        0.42558     11748.672400 2026-11-21 05:16:20.423456
           loss  epoch_seconds
count  2.000000       2.000000
mean   0.359195       0.319185
"""


def test_frames_of_pandas_are_tables() -> None:
    """Columns with the name of a measurement are masked in what ``print(frame)`` writes; other cells are compared."""
    one, other = FRAME.encode(), SLOWER.encode()
    assert digest(one).result() == digest(other).result()
    assert first_difference("stdout", one, other, (MASKS, MASKS), ordered=True) is None
    for old, new in (
        (b"0.396900", b"0.396901"),
        (b"count  2", b"count  3"),
        (b"1      1", b"1      2"),
        (b"loss ", b"lost "),
    ):
        assert first_difference("stdout", one, other.replace(old, new, 1), (MASKS, MASKS), ordered=True) is not None


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("               acc  fit_time\nrandom forest  0.5  0.123456\nsvm            0.7  0.214507\n", "0.7"),
        ("               acc  fit_time\nsvm            0.7  0.214507\nrandom forest  0.5  0.123456\n", "random forest"),
        ("   acc  ... user_attrs_seconds     state\n0  0.5  ...           0.000467  COMPLETE\n", "COMPLETE"),
    ],
)
def test_rows_with_labels_of_several_words_and_heads_with_dots(text: str, result: str) -> None:
    """A frame's index may be texts, and not all columns are shown."""
    one, other = text.encode(), re.sub(r"0\.\d{5,}", lambda found: found[0].replace("4", "9"), text).encode()
    assert one != other
    assert first_difference("stdout", one, other, (MASKS, MASKS), ordered=True) is None
    wrong = other.replace(result.encode(), b"X" * len(result))
    assert first_difference("stdout", one, wrong, (MASKS, MASKS), ordered=True) is not None


@pytest.mark.parametrize(
    "text",
    [
        "   epoch  seconds\n0      1   {0}.25 behind\n",
        "epoch  seconds\n    1     {0}.25\n",
        "   epoch  seconds\n0      1   {0}.25 \n",
        "   epoch  seconds\n0      1  {0}.250 4\n",
        "   epoch  seconds\n  the mean   is {0}.2\n",
        "   epoch  loss\n0      1  {0}.25\n",
    ],
)
def test_what_is_no_frame_is_compared(text: str) -> None:
    """Values that end elsewhere, an index that is missing, further words, and columns of results."""
    one, other = text.format(1).encode(), text.format(2).encode()
    assert first_difference("stdout", one, other, (MASKS, MASKS), ordered=True) is not None


def digest(*chunks: bytes) -> PrintedDigest:
    """What is known of a stream that came in these pieces."""
    found = PrintedDigest(MASKS)
    for chunk in chunks:
        found.feed(chunk)
    return found


def test_lines_are_counted_and_digested_as_they_come() -> None:
    """However a stream is cut into pieces, also within a character or an escape, it is the same; its end needs no
    newline."""
    data = "loss 0.5\nα took 3.1 s\r\n\x1b[1mdone\x1b[0m".encode()
    whole = digest(data).result()
    assert (whole.lines, whole.masked) == (3, {"times": 1})
    for at in range(len(data)):
        assert digest(data[:at], data[at:]).result() == whole
    assert digest(data + b"\n").result() == whole
    assert digest(data + b"\n\n").result() != whole
    assert digest().result().lines == 0


@pytest.mark.parametrize(
    "frames",
    [
        ["\r 10%|█         | 1/10 [00:00<00:01, 9.1it/s]", "\r100%|██████████| 10/10 [00:01<00:00, 9.5it/s]\n"],
        ["\r100%|██████████| 10/10 [00:02<00:00, 4.5it/s]\n"],
        [f"\r {number * 10}%|█         | {number}/10 [00:00<00:01, 9.1it/s]" for number in range(10)]
        + ["\r100%|██████████| 10/10 [00:01<00:00, 9.5it/s]\n"],
    ],
)
def test_a_progress_bar_is_what_it_shows_at_last(frames: Sequence[str]) -> None:
    """How often a bar was drawn depends on the clock; its last state counts."""
    found = digest(*(frame.encode() for frame in frames)).result()
    last = digest("100%|██████████| 10/10 [00:09<00:00, 1.1it/s]\n".encode()).result()
    assert (found.lines, found.sha256) == (1, last.sha256)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("final loss 0.25424302\r>\n", ">inal loss 0.25424302"),
        ("loss 0.25424302 of 3\rdone\rok\n", "okne 0.25424302 of 3"),
        ("elapsed 12.41s\relapsed 9.8s\n", "elapsed 9.8s"),
        ("loss 0.25424302\r\x1b[Kdone\n", "done"),
        ("loss 0.25424302\x1b[2K\rdone\n", "done"),
        ("loss 0.25424302\r               \rdone\n", "done"),
    ],
)
def test_what_a_shorter_line_leaves_of_the_one_below_counts(text: str, shown: str) -> None:
    """A terminal still shows it, unless it was erased; the last characters, which numbers of times leave, do not."""
    assert [row.text for row in rows(text.encode(), MASKS)] == [shown]


def _nested(taken: str, rate: str, loss: str, seen: str = "") -> bytes:
    """A bar that shares its row with a longer one, as ``tqdm`` within ``trange`` draws them."""
    outer = f"Epoch (Loss={loss}):  50%|█████     | 1/2 [00:0{taken}<00:0{taken},  {rate}s/it{seen}]"
    return f"\r{outer}\rBatches: 100%|██████████| 1/1 [00:0{taken}<00:00,  {rate}s/it]\n".encode()


def test_what_is_left_of_a_longer_bar_is_measured_as_it_was_there() -> None:
    """It may begin in the middle of a time, or of a rate."""
    one, other = (digest(_nested(*each)).result() for each in (("2", "2.42", "0.31131"), ("5", "5.82", "0.31131")))
    assert (one.lines, one.sha256) == (other.lines, other.sha256)
    longer = [digest(_nested(taken, "2.42", "0.31131", ", lr=0.001")).result().sha256 for taken in "25"]
    assert longer[0] == longer[1] != one.sha256


def test_what_a_program_adds_to_a_longer_bar_counts_where_it_is_left() -> None:
    """Only what the bar measures by itself is none of the result."""
    one, other = (digest(_nested("2", "2.42", "0.31131", f", accuracy=0.{each}")).result() for each in ("912", "913"))
    assert one.sha256 != other.sha256


@pytest.mark.parametrize(
    ("covered", "equal"),
    [
        ("scores: 100%|█████| 3/3 [00:45<00:00, {}it/s]", True),
        ("scores: 100%|█████| 3/3 [00:45<00:00, {}s/ example]", True),
        ("scores of all: 12it [00:45, {}it/s]", True),
        ("scores of all: 12 examples [00:45, {} examples/s]", True),
        ("score of the best model so far [00:45, {}acc/epoch]", False),
        ("score of the best model so far [00:45, {} hits/s]", False),
        ("score of the best model so far 3/3 [00:45<00:12, {} hits/s]", False),
        ("score of the best: 12 models [00:45, {} hits/s]", False),
        ("scores: 100%|█████| 3/3 [00:45<00:00, {}hits/query]", False),
    ],
)
def test_what_is_left_of_a_line_that_is_no_bar_counts(covered: str, *, equal: bool) -> None:
    """Only what tqdm draws measures; what a program writes in brackets is its own."""
    one, other = (
        digest(f"{covered.format(each)}\rdone\n".encode()).result().sha256 for each in ("0.912345", "0.345678")
    )
    assert (one == other) is equal


def test_a_kernel_that_is_shut_down_early_says_so_within_another_line() -> None:
    """Whether it does depends on the clock: it is left out and counted, and the bar is drawn on."""
    bar, end = "\r100%|█| 25/25 [01:24<00:00,  3.20s/cell]", "\r100%|█| 25/25 [01:27<00:00,  3.50s/cell]\n"
    early = f"{bar}[IPKernelApp] ERROR | KeyboardInterrupt caught in kernel.\n{end}"
    one, other = digest(early.encode()).result(), digest(f"{bar}{end}".encode()).result()
    assert (one.lines, one.sha256) == (other.lines, other.sha256)
    assert one.masked == {**other.masked, "log messages by the clock": 1}
    assert digest(early.replace("Keyboard", "Process").encode()).result().sha256 != other.sha256


def test_bars_above_each_other_are_drawn_in_place() -> None:
    """Nested bars move the cursor up; what stays on the screen counts, not how often it was drawn."""
    often = "outer 0/2\n\rinner 0/3\x1b[A\router 1/2\n\rinner 1/3\x1b[A\router 2/2\n\rinner 3/3\n"
    seldom = "outer 0/2\n\rinner 2/3\x1b[A\router 2/2\n\rinner 3/3\n"
    assert digest(often.encode()).result() == digest(seldom.encode()).result()
    assert [row.text for row in rows(often.encode(), MASKS)] == ["outer 2/2", "inner 3/3"]


def test_order_counts_but_is_known_apart() -> None:
    """The same lines in another order have another digest, and the same digest without order."""
    one, other = digest(b"a\nb\nb\n").result(), digest(b"b\na\nb\n").result()
    assert one.sha256 != other.sha256
    assert one.unordered == other.unordered
    assert one.unordered != digest(b"a\na\nb\n").result().unordered


def test_the_first_line_that_differs_is_found() -> None:
    """By its number as it is shown at last, unmasked on both sides; what only one stream has is a difference too."""
    before = b"epoch 1 took 3.1 s\r\rtest accuracy = 0.9063\n"
    after = b"epoch 1 took 4.1 s\r\rtest accuracy = 0.9067\n"
    start = b"took 1.0 s\n"
    found = first_difference("stdout", start + before, b"took 2.0 s\n" + after, (MASKS, MASKS), ordered=True)
    assert found == TextDifference(
        path="stdout", line=2, before="test accuracy = 0.9063", after="test accuracy = 0.9067"
    )
    assert first_difference("stdout", start, b"took 2.5 s\n", (MASKS, MASKS), ordered=True) is None
    more = first_difference("stdout", start, start + b"done\n", (MASKS, MASKS), ordered=True)
    assert more == TextDifference(path="stdout", line=2, before="", after="done")


def test_a_line_with_other_blanks_is_found_where_no_other_line_differs() -> None:
    """Columns as wide as the numbers below them: the numbers differ, and the head only because they do."""
    head, wide = b"gen\tavg \tmax\n", b"gen\tavg  \tmax\n"
    found = first_difference("stdout", head + b"0\t24.1\t29\n", wide + b"0\t23.95\t29\n", (MASKS, MASKS), ordered=True)
    assert found == TextDifference(path="stdout", line=2, before="0\t24.1\t29", after="0\t23.95\t29")
    found = first_difference("stdout", head, wide, (MASKS, MASKS), ordered=True)
    assert found == TextDifference(path="stdout", line=1, before="gen\tavg \tmax", after="gen\tavg  \tmax")


def test_without_order_a_line_differs_that_the_other_stream_lacks() -> None:
    """Lines of several processes are paired by their text."""
    one, other = b"rank 0 ready\nrank 1 ready\nloss 0.5\n", b"rank 1 ready\nloss 0.6\nrank 0 ready\n"
    found = first_difference("stderr", one, other, (MASKS, MASKS), ordered=False)
    assert found == TextDifference(path="stderr", line=3, before="loss 0.5", after="loss 0.6")
    assert first_difference("stderr", b"a\nb\n", b"b\na\n", (MASKS, MASKS), ordered=False) is None


NODE = (
    "E0000 00:00:1795247763.250908     {} node_def_util.cc:682] NodeDef mentions attribute use_threads which "
    "is not in the op definition: Op<name=MapDataset> NodeDef: {{{{node {}}}}}\n"
)
_TF = "2026-11-21 05:16:03.408973: {} tensorflow/core/"
C10D = "[{}1125 23:08:54.675573822 socket.cpp:207] [c10d] {}\n"
BY_CLOCK = [
    NODE.format(2, "MapDataset/_15"),
    NODE.format(217, "ParallelMapDatasetV2/_14"),
    _TF.format("E") + "framework/node_def_util.cc:676] NodeDef mentions attribute a which is not in the op\n",
    _TF.format("I") + "kernels/data/shuffle_dataset_op.cc:450] Filling up shuffle buffer (8): 5 of 8\n",
    "W0000 00:00:1795247763.2 12 cpu_allocator_impl.cc:84] Allocation of 1881600 exceeds 10% of free system memory.\n",
    C10D.format("W", "The hostname of the client socket cannot be retrieved. err=-3"),
    C10D.format("W", "The server socket on [node1]:29500 has timed out, will retry."),
    C10D.format("I", "No socket on (10.0.0.1, 29500) is listening yet, will retry."),
    C10D.format(
        "W",
        "waitForInput: poll for socket SocketImpl(fd=57, addr=[node1.cluster]:40112, remote=[node-2]:29500) "
        "returned 0, likely a timeout",
    ),
    "[W socket.cpp:436] [c10d] The hostname of the client socket cannot be retrieved. err=-2\n",
]


@pytest.mark.parametrize("line", BY_CLOCK)
def test_a_message_by_the_clock_is_there_or_not(line: str) -> None:
    """A slow run has more of them, or fewer.

    TensorFlow logs it at most once in some seconds, or as memory is free; PyTorch as often as ranks wait for another.
    Its warning that is to come once comes twice if two threads are at it: in 2 of 30 runs of a rank 0, under load.
    """
    before, after = b"epoch 1\nepoch 2\n", f"epoch 1\n{line}epoch 2\n{line}".encode()
    assert first_difference("stderr", before, after, (MASKS, MASKS), ordered=True) is None
    one, other = digest(before).result(), digest(after).result()
    assert (one.sha256, one.lines) == (other.sha256, other.lines) == (one.sha256, 2)
    assert other.masked == {"log messages by the clock": 2}


@pytest.mark.parametrize(
    "line",
    [
        "node_def_util.cc:682] NodeDef mentions attribute a\n",
        "E0000 00:00:1795247763.25 2 node_def_util.cc:682] loss is 0.25\n",
        "loss 0.25 E0000 00:00:1795247763.25 2 node_def_util.cc:682] NodeDef mentions attribute a\n",
        "E0000 00:00:1795247763.25 2 cuda_dnn.cc:1] Allocation of 8 exceeds 10% of free system memory\n",
        C10D.format("W", "The hostname of the client socket cannot be retrieved. err=-3, loss 0.25"),
        C10D.format("W", "The client socket has failed to connect to [node1]:29500 (errno: 110 - timed out)."),
        C10D.format("W", "The server socket on loss 0.25 has timed out, will retry."),
        "loss 0.25 " + C10D.format("W", "The hostname of the client socket cannot be retrieved. err=-3"),
    ],
)
def test_other_messages_count(line: str) -> None:
    """Those of other places, of other words, and what stands behind something else in its line."""
    before, after = b"epoch 1\n", f"epoch 1\n{line}".encode()
    assert first_difference("stderr", before, after, (MASKS, MASKS), ordered=True) is not None
    assert digest(before).result().sha256 != digest(after).result().sha256


def test_each_run_has_its_own_time() -> None:
    """A date is masked if it is of its own run, which may have been another day's."""
    later = Masks(START + 100 * 86400)
    one, other = b"on 2026-11-21\n", b"on 2027-03-01\n"
    assert first_difference("stdout", one, other, (MASKS, later), ordered=True) is None
    assert first_difference("stdout", one, other, (MASKS, MASKS), ordered=True) is not None


def test_a_folder_as_tensorboard_names_it_has_no_year() -> None:
    """Its date counts as this year's: of about now it is a time of the run, half a year away it is a name."""
    now = datetime.now(timezone.utc)
    far = now.replace(month=(now.month + 5) % 12 + 1, day=1)
    masks = Masks(now.timestamp())
    one, other = (f"logs in runs/{now:%b%d}_{clock}_box" for clock in ("08-00-00", "09-30-59"))
    assert one != other
    assert masks.mask(one) == masks.mask(other)
    assert masks.mask(one).kinds == {"times"}
    assert masks.mask(f"runs/{far:%b%d}_08-00-00_box").text == f"runs/{far:%b%d}_08-00-00_box"
    assert masks.mask(f"Nov{now:%d%d}_08-00-00").kinds == frozenset()


@pytest.mark.parametrize(
    "text", ["1,2," * 100_000, "100,200," * 50_000, "1" * 400_000, "12:34:" * 60_000, "a" * 400_000]
)
def test_long_lines_are_cut_and_cost_little(text: str) -> None:
    """A line of any length is compared whole and in linear time, however it comes in pieces."""
    data = text.encode()
    whole = digest(data, b"\n").result()
    assert whole.lines == -(-len(data) // (1 << 16))
    assert digest(*(data[at : at + 5000] for at in range(0, len(data), 5000)), b"\n").result() == whole
    assert digest(data[:-1], b"0\n").result() != whole


@pytest.mark.parametrize(
    "part", ["1,2,", "100,200,", "1", "12:34:", "3 s", "jan 1 ", "0.5e", "1h2m", "at 0x1", "x_time ", "a/"]
)
def test_no_line_is_searched_for_long(part: str) -> None:
    """Just below the length from which nothing is masked, no pattern goes back and forth over a line."""
    MASKS.mask((part * (1 << 16))[: (1 << 16) - 1])


MARKER = "1/4ec397438140c39b/bdd849b5-0a67-48cb-8dba-10a031bc7d2e/pid:[4026532551]/5591678"
RUN = "01M8HAWJ6TXY9A3ZXHPNS78DW6"


@pytest.mark.parametrize(
    "line",
    [
        "ENVBUILD_GUARD={marker}", " 'ENVBUILD_GUARD': '{marker}',", "ENVBUILD_RUN_ID={run}",
        "ENVBUILD_RUN_ID          {run}", "('ENVBUILD_RUN_ID', '{run}')",
        "('ENVBUILD_PROCESS', '{number}:::exec -c.1')", "ENVBUILD_VARY={number}:listings,environment",
        "ENVBUILD_VARY={number}:listings,environment,load",
        "'ENVBUILD_VARY': '{number}:listings,environment,load,turns,pids,memory'",
    ],
)  # fmt: skip
def test_own_variables_are_the_same_in_all_runs(line: str) -> None:
    """A program that prints its environment prints the same in all of them; what is anything else's counts."""
    masks = MASKS
    one = masks.mask(line.format(marker=MARKER, run=RUN, number=0)).text
    other = MARKER.replace("551", "552").replace("678", "999")
    assert masks.mask(line.format(marker=other, run=RUN[::-1], number=2)).text == one
    for result in (f"weights {RUN}", "ENVBUILD_RUN_ID of 3", "2:listings", "found 2:listings,environment"):
        assert masks.mask(result).text in (result, "")


def test_a_number_in_an_own_variable_is_compared_again_when_the_processes_are_known() -> None:
    """While a program prints they are not: what was masked by then is noted as that of any process is."""
    line = "ENVBUILD_PROCESS={}:::"
    assert MASKS.mask(line.format(813351)).kinds == {"names"}
    known = MASKS.with_files((), dict, processes=range(1, 100))
    assert known.mask(line.format(2)) == known.mask(line.format(5))
    assert known.mask(line.format(813351)).text == line.format(813351)


def test_the_host_names_of_a_verification_are_one() -> None:
    """Each of its runs has another; what names it is equal."""
    masks = Masks(0.0)
    assert masks.mask("rank 0 on envbu002").text == masks.mask("rank 0 on envbuild").text
    assert masks.mask("my-envbu002").text == "my-envbu002"


@pytest.mark.parametrize(
    "text",
    [
        "run capable-auk-759 {} rmse 0.5",
        "run rare-shrimp-132 ({}) finished",
        "run_id: {}",
        '"experiment_id": "{}"',
        "artifact_uri: /w/mlruns/1/{}/artifacts",
    ],
)
def test_a_uuid_without_dashes_is_a_name_where_names_are(text: str) -> None:
    """As MLflow names runs; a digest of as many digits is a result, and so is one that is called so."""
    assert MASKS.mask(text.format("8079f6803f0f4a4791359be26ad94007")).kinds == {"names"}
    for digest in ("8079f6803f0f3a4791359be26ad94007", "8079f6803f0f4a4771359be26ad94007", "f" * 33):
        assert not MASKS.mask(text.format(digest)).kinds


@pytest.mark.parametrize(
    "text",
    [
        "weights md5 {}",
        "run md5 {}",
        "run 3: md5 of weights {}",
        "md5: {}",
        "token {}",
        "nearest doc_id: {}",
        "best id: {}",
        "run result is {}",
        "trial winner {}",
        "worst image: val/{}.jpg",
        "val/{} 0.9",
    ],
)
def test_a_digest_or_a_sample_is_no_name(text: str) -> None:
    """Even if it looks like a UUID, which one in 64 digests does, and names of samples in data sets do."""
    assert not MASKS.mask(text.format("8079f6803f0f4a4791359be26ad94007")).kinds


def test_names_that_a_run_drew_for_its_files_are_equal_in_their_texts() -> None:
    """As in their paths; other texts of that form count."""
    run = "3fffaa0c1d2e4b5a8f7e6d5c4b3a2910"
    assert drawn_names([f"mlruns/0/{run}/meta.yaml"]) == {run}
    uuid = "0a1b2c3d-ff41-4b0f-9844-0123456789ab"
    assert drawn_names([f"runs/{uuid}/w.npy"]) == {uuid}
    assert Masks(START, drawn={uuid, uuid[:8]}).mask(f"{uuid},1,loss 0.5").text == "⟨name⟩,1,loss 0.5"
    masks = Masks(0.0, drawn=[run])
    assert masks.mask(f"uri: file:///workspace/mlruns/0/{run}/artifacts").text == (
        "uri: file:///workspace/mlruns/0/⟨name⟩/artifacts"
    )
    assert Masks(0.0).mask(run).text == run
    assert Masks(0.0).with_files({run}, dict).mask(f"done: {run}").text == "done: ⟨name⟩"
    assert (
        Masks(0.0).with_files((), lambda: {"ab" * 32: "w.npy"}).mask("ab" * 32 + "  w.npy").text
        == "⟨digest of w.npy⟩  w.npy"
    )
    assert Masks(0.0).with_files((), lambda: {"ab" * 32: "w.npy"}).mask("ac" * 32).text == "ac" * 32


def test_times_of_day_can_be_left_alone() -> None:
    """For experiments with clocks, which show what goes with them; durations and rates are masked all the same."""
    line = "25/11/26 08:00:01.123 6 took 1.5 s"
    assert Masks(0.0, moments=False).mask(line).text == "25/11/26 ⟨time⟩ 6 took ⟨time⟩"
    assert Masks(0.0, moments=False, days=False).mask(line).text == "25/11/26 08:00:01.123 6 took ⟨time⟩"


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("loss=0.25 steps/s=1042.7", "loss=0.25 steps/s=⟨rate⟩"),
        ("[7:140234567890112 Thread-1] done", "[7:⟨address⟩ Thread-1] done"),
        ("140234567890112.5", "140234567890112.5"),
        ("checksum 140234567890113", "checksum 140234567890113"),
        ("fps 24/30", "fps ⟨rate⟩/30"),
        ("fps 24.5", "fps ⟨rate⟩"),
        ("m/s=3.5", "m/s=3.5"),
        (
            '{"wps": "81920.1", "train_wall": "0.5", "wall": "1"}',
            '{"wps": "⟨rate⟩", "train_wall": "⟨time⟩", "wall": "⟨time⟩"}',
        ),
        (
            "| loss 0.25 | wps 8192.1 | ups 12.5 | train_wall 1 | wall 1",
            "| loss 0.25 | wps ⟨rate⟩ | ups ⟨rate⟩ | train_wall ⟨time⟩ | wall ⟨time⟩",
        ),
        ("hits a wall 3 of 4", "hits a wall 3 of 4"),
        ("| wall 3 | door 4 |", "| wall 3 | door 4 |"),
        ("{'wall': 3}", "{'wall': 3}"),
        ("follow_ups: 12, pull-ups 3", "follow_ups: 12, pull-ups 3"),
        ("ups 3", "ups 3"),
        ("steps_elapsed: 12", "steps_elapsed: 12"),
        ("epochs elapsed=3 and days-elapsed 4", "epochs elapsed=3 and days-elapsed 4"),
        ("'frames_elapsed': 12", "'frames_elapsed': 12"),
        ("5000 steps, elapsed: 12", "5000 steps, elapsed: ⟨time⟩"),
        ("\tPercent of CPU this job got: 126%", "\tPercent of CPU this job got: ⟨time⟩"),
        ("\tMaximum resident set size (kbytes): 12345", "\tMaximum resident set size (kbytes): ⟨memory⟩"),
        ("\tExit status: 3", "\tExit status: 3"),
        (
            "throughput per GPU (TFLOP/s/GPU): 369.1 | lm loss: 6.02E+00",
            "throughput per GPU (TFLOP/s/GPU): ⟨rate⟩ | lm loss: 6.02E+00",
        ),
        ("reached 12.5 TFLOP/s, loss 0.25", "reached ⟨rate⟩, loss 0.25"),
        ("the model has 4.1 GFLOPs", "the model has 4.1 GFLOPs"),
        ("time per iteration (ms): 3.2 | scale: 1.0", "time per iteration (ms): ⟨time⟩ | scale: 1.0"),
        ("loss (s): 0.25", "loss (s): 0.25"),
        (
            "Speed: 0.1ms preprocess, 1.4ms inference, 0.0ms loss, 0.4ms postprocess per image",
            "Speed: ⟨time⟩ preprocess, ⟨time⟩ inference, ⟨time⟩ loss, ⟨time⟩ postprocess per image",
        ),
        ("after 12 steps the loss, 0.4s", "after 12 steps the loss, 0.4s"),
        ("validation loss, 0.4s", "validation loss, 0.4s"),
        ("error on the test set (ms): 0.25", "error on the test set (ms): 0.25"),
        ("width (m): 0.25", "width (m): 0.25"),
    ],
)
def test_rates_and_threads(line: str, masked: str) -> None:
    """Rates whose name ends in /s; times with their unit behind the name; numbers of threads, which are addresses."""
    assert Masks(0.0).mask(line).text == masked


def torch_table(rows: Sequence[tuple[str, str]], name: str = "Self CPU %") -> bytes:
    """A table as PyTorch's profiler prints it: as wide as its names, sorted by time."""
    width = max(len(first) for first, _ in rows) + 2
    ruler = "  ".join(["-" * width, *["------------"] * 5])
    lines = [ruler, f"{'Name':>{width}}    {name}      Self CPU   CPU total %    CPU total    # of Calls", ruler]
    lines += [
        f"{first:>{width}}        24.28%       {spent}        24.28%       {spent}      30" for first, spent in rows
    ]
    return "\n".join([*lines, ruler, "Self CPU time total: 7.541ms", "", "loss 0.5", ""]).encode()


PSTATS = b"""\
         2002 function calls in 0.001 seconds

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
        1    0.001    0.001    0.002    0.002 train.py:3(fit)
     2000    0.000    0.000    0.000    0.000 {method 'random' of '_random.Random' objects}

loss 0.5
"""


ENDED = torch_table([("a", "1ms")]).partition(b"Self CPU time")[0] + b"\nloss 0.5\n"


def behind(table: bytes, line: bytes) -> bytes:
    """Print a line of the program's own right behind a table."""
    return table.replace(b"\n\nloss 0.5", b"\n" + line + b"\n\nloss 0.5")


def test_timers_of_megatron() -> None:
    """The lines below the head of its timers are times; a line of another form ends them and counts."""
    first = "(min, max) time across ranks (ms):\n    forward-backward ......: (1.23, 4.56)\n  loss: 0.25\n"
    other = first.replace("1.23", "2.34")
    masks = (Masks(0.0), Masks(0.0))
    assert first_difference("stdout", first.encode(), other.encode(), masks, ordered=True) is None
    other = first.replace("0.25", "0.26")
    found = first_difference("stdout", first.encode(), other.encode(), masks, ordered=True)
    assert found is not None
    assert found.line == 3


LIGHTNING = """\
FIT Profiler Report
------------------------------------------------------------------------------
|  Action              |  Mean duration (s)  |  Num calls  |  Total time (s)  |  Percentage %  |
------------------------------------------------------------------------------
|  Total               |  -                  |  1204       |  2.4178          |  100 %         |
------------------------------------------------------------------------------
|  run_training_epoch  |  0.60001            |  4          |  2.4             |  99.27         |
|  optimizer_step      |  0.018105           |  40         |  0.7242          |  30.1          |
------------------------------------------------------------------------------
|  loss                |  0.25               |
"""


def test_the_report_of_lightning() -> None:
    """Actions sorted by their time; what has other columns counts, and so does a table with another head."""
    masks = (Masks(0.0), Masks(0.0))
    one, two = LIGHTNING.splitlines(keepends=True)[6:8]
    other = LIGHTNING.replace(one + two, two.replace("0.7242", "2.9") + one).replace("2.4178", "3.1")
    assert first_difference("stdout", LIGHTNING.encode(), other.encode(), masks, ordered=True) is None
    for before in (LIGHTNING, LIGHTNING.replace("Action", "Weight")):
        after = before.replace("0.25 ", "0.26 ") if before == LIGHTNING else before.replace("30.1", "30.2")
        assert first_difference("stdout", before.encode(), after.encode(), masks, ordered=True) is not None


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("tree <__main__.Min...x7fd75f134d90>", "tree <__main__.Min...x⟨address⟩>"),
        ("tree <__main__.Min...x0d75f134d90>", "tree <__main__.Min...x0d75f134d90>"),
        ("INFO ForkPoolWorker-2: fold 3", "INFO ⟨worker⟩: fold 3"),
        ("SpawnProcess-1:2 fold 3", "⟨worker⟩ fold 3"),
        ("ThreadPoolExecutor-0_1 fold 3", "⟨worker⟩ fold 3"),
        ("[LokyProcess-3] fold 3", "[⟨worker⟩] fold 3"),
        ("Process-3 fold 3", "Process-3 fold 3"),
        ("done | elapsed: 17.2min finished", "done | elapsed: ⟨time⟩ finished"),
        ("training speed: 120 iterations (0.0012 s / it)", "training speed: 120 iterations (⟨rate⟩)"),
        ("lr: 0.02  max_mem: 340M", "lr: 0.02 max_mem: ⟨memory⟩"),
        ("max_mem: 340 rows", "max_mem: 340 rows"),
        ("  1/4  0.365G  0.4961  1.093", " 1/4 ⟨memory⟩ 0.4961 1.093"),
        ("1/4 0.365G", "1/4 0.365G"),
        ("1/4 0.365 0.4961", "1/4 0.365 0.4961"),
        ("drift 0.0012 m / it", "drift 0.0012 m / it"),
        ("| order 3 | 12.34 min | late |", "| order 3 | 12.34 min | late |"),
        ("| 0.1 min | 0.9 max |", "| 0.1 min | 0.9 max |"),
        ("| loss 0.1 min | 0.9 |", "| loss 0.1 min | 0.9 |"),
        ("Elapsed 3.51 s, speedup 1.47x", "Elapsed ⟨time⟩, speedup ⟨rate⟩x"),
    ],
)
def test_names_that_libraries_give(line: str, masked: str) -> None:
    """Shortened addresses, workers of Python's and loky's pools, joblib's minutes, how much faster something was."""
    assert Masks(0.0).mask(line).text == masked


def test_tables_of_profilers_are_masked_as_a_whole() -> None:
    """Which functions were the slowest differs in every run, what is printed next to the table counts."""
    first = torch_table([("aten::copy_", "4.279ms"), ("aten::addmm", "1.001us")])
    other = torch_table([("Optimizer.zero_grad#SGD.zero_grad", "2.632ms"), ("aten::copy_", "1.5s")])
    turned = b"\n".join(
        [*(lines := PSTATS.splitlines())[:3], lines[4], lines[3].replace(b"1    0", b"1    2"), *lines[5:], b""]
    )
    imported = PSTATS.replace(b"2002 function", b"2065 function")  # a package more was looked for
    for before, after in ((first, other), (PSTATS, turned), (PSTATS, imported)):
        assert digest(before).result() == digest(after).result()
        assert first_difference("stdout", before, after, (MASKS, MASKS), ordered=True) is None
        found = first_difference(
            "stdout", before, after.replace(b"loss 0.5", b"loss 0.6"), (MASKS, MASKS), ordered=True
        )
        assert found is not None
        assert (found.before, found.after) == ("loss 0.5", "loss 0.6")
        assert digest(before).result() != digest(after.replace(b"loss 0.5", b"loss 0.6")).result()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PSTATS.replace(b"2002 function", b"2002 useful"), PSTATS.replace(b"2002 function", b"2003 useful")),
        (b"2002 function calls in 4 files\n", b"2003 function calls in 4 files\n"),
        (PSTATS.replace(b"ncalls", b"weight"), PSTATS.replace(b"ncalls", b"weight").replace(b"0.002", b"0.003")),
        (torch_table([("a", "1ms")], "Weight %"), torch_table([("b", "1ms")], "Weight %")),
        (b"---  ---  ---  ---  ---  ---\n", b"---  ---  ---  ---  ---  ----\n"),
        (behind(ENDED, b"accuracy  91.00%  12ms epoch 1"), behind(ENDED, b"accuracy  92.00%  12ms epoch 1")),
        (
            behind(PSTATS, b"   12    0.912    0.333    0.100    0.200 net-a"),
            behind(PSTATS, b"   12    0.913    0.333    0.100    0.200 net-a"),
        ),
        (PSTATS.replace(b"\n\nloss 0.5", b"\nloss 0.5"), PSTATS.replace(b"\n\nloss 0.5", b"\nloss 0.6")),
    ],
)
def test_other_tables_count(before: bytes, after: bytes) -> None:
    """Only rows of a profile below its own head are masked."""
    assert digest(before).result() != digest(after).result()


SLOWEST = """\
collected 3 items
========== slowest 5 durations ==========
0.06s call     test_a.py::test_one
0.05s setup    test_a.py::TestTwo::test_two[3]
0.01s teardown test_a.py::test_one

(2 durations < 0.005s hidden.  Use -vv to show these durations.)
========== 3 passed in 0.29s ==========
"""
"""As pytest 9 prints it."""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.06s call     test_a.py::test_one\n0.05s setup    test_a.py::TestTwo::test_two[3]",
         "0.07s setup    test_a.py::TestTwo::test_two[3]\n0.05s call     test_a.py::test_one"),
        ("0.01s teardown test_a.py::test_one\n\n(2", "\n(3"),
        ("\n(2 durations < 0.005s hidden.  Use -vv to show these durations.)\n",
         "0.01s setup    test_a.py::test_one\n0.01s call     test_a.py::test_three\n"),
    ],
)  # fmt: skip
def test_which_tests_pytest_shows_as_the_slowest_is_measured(old: str, new: str) -> None:
    """They are sorted by time, and left out if they were fast; how many there are is the same in each run."""
    before, after = SLOWEST.encode(), SLOWEST.replace(old, new).encode()
    assert before != after
    assert digest(before).result() == msgspec.structs.replace(
        digest(after).result(), masked=digest(before).result().masked
    )
    assert first_difference("stdout", before, after, (MASKS, MASKS), ordered=True) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(2 durations", "(1 durations"),
        ("0.01s teardown test_a.py::test_one\n", ""),
        ("slowest 5", "slowest 6"),
        ("3 passed", "2 passed"),
        ("collected 3 items\n", "collected 3 items\n0.06s call     test_a.py::test_one\n"),
        (" hidden.  Use -vv to show these durations.)\n", " hidden.  Use -vv to show these durations.)\n\n"),
        (" hidden.  Use", " hidden. loss 0.3  Use"),
        ("0.05s setup    test_a.py::TestTwo::test_two[3]", "loss 0.25"),
        ("========== 3", "0.25\n========== 3"),
    ],
)  # fmt: skip
def test_what_pytest_prints_around_its_slowest_tests_counts(old: str, new: str) -> None:
    """Their number, and lines that are no rows of the table."""
    before, after = SLOWEST.encode(), SLOWEST.replace(old, new).encode()
    assert before != after
    assert digest(before).result().sha256 != digest(after).result().sha256


def test_moments_are_left_as_they_are_if_asked() -> None:
    """Readings of a fixed clock look like dates; all else is masked as ever."""
    masks = Masks(START, moments=False)
    assert masks.mask(f"at {START} on 2026-11-22, took 0.25 s").text == f"at {START} on 2026-11-22, took ⟨time⟩"


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_bounded_digest_masks_the_beginning(size: int) -> None:
    """Up to the bound it is the digest of all lines, however they come; behind it the bytes count as they are."""
    text = b"loss 1 took 2.5 s\nloss 2\nloss 3\nrest\nand more"
    digest = BoundedDigest(MASKS, lines=3)
    for start in range(0, len(text), size):
        digest.feed(memoryview(text)[start : start + size])
    whole = PrintedDigest(MASKS)
    whole.feed(b"loss 1 took 9.5 s\nloss 2\nloss 3\n")
    found = digest.result()
    assert digest.result() == found
    rest = b"rest\nand more"
    assert found == msgspec.structs.replace(whole.result(), rest_bytes=len(rest), rest=hashlib.sha256(rest).hexdigest())
    phrase = "3 lines of standard output (1 with times masked), and 13 bytes as they are"
    assert found.phrase("standard output") == phrase


def test_endless_lines_end_at_the_bound() -> None:
    """A stream without line breaks is masked up to so many bytes."""
    digest = BoundedDigest(MASKS, size=10)
    for _ in range(5):
        digest.feed(b"abcd\r")
    assert digest.result().rest_bytes == 15


PIECES = [part for _, *lines in MASKED for part in lines] + [part for lines in SEEN for part in lines]


def every_rule(line: str) -> str:
    """Mask a line by all rules in their order, whether they may match or not."""
    kinds: set[str] = set()
    for rule in TABLE:
        line = rule.pattern.sub(partial(MASKS._replace, rule, kinds, []), line)
    return line


@pytest.mark.parametrize("line", PIECES)
def test_no_rule_is_left_out_that_matches(line: str) -> None:
    """Which rules are tried is a matter of time alone."""
    assert MASKS._apply(line, set(), []) == every_rule(line)


@given(st.lists(st.sampled_from(PIECES) | st.text(alphabet="0123456789.:-/ sm,T_ itn", max_size=12), max_size=4))
def test_no_rule_is_left_out_that_matches_together(parts: list[str]) -> None:
    """The same for lines in which one mask makes room for another one, and for shapes that were seen before."""
    for separator in ("", " ", "-"):
        line = separator.join(parts)
        assert MASKS._apply(line, set(), []) == every_rule(line)


def test_lines_that_are_no_text_are_compared_as_they_are() -> None:
    """In a file that is printed raw nothing is looked for."""
    assert MASKS.mask("took 3.1 s\x00").text == "took 3.1 s\x00"
    assert MASKS.mask("took 3.1 s\a").text == "took ⟨time⟩\a"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\0\1\r\2\0", b"\0\3\r\2\0"),
        (b"abc\rde\1", b"abd\rde\1"),
        (b"\1\x08", b"\1"),
        (b"\1a\x1b[2Kb", b"\1b"),
        (b"\1 ", b"\1"),
        (b"\1ab\rcd\n", b"\1ef\rcd\n"),
    ],
)
def test_binary_data_are_not_written_over(before: bytes, after: bytes) -> None:
    """Control characters are bytes as all others where some are that no text has, however they come in pieces."""
    assert digest(before).result() != digest(after).result()
    assert first_difference("stdout", before, after, (MASKS, MASKS), ordered=True) is not None
    for data in (before, after):
        pieces = [data[at : at + 1] for at in range(len(data))]
        assert digest(*pieces).result() == digest(data).result()


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("fold 2: 0.25 s", "fold 2: 0.31 s", True),
        ("a\nbest stage = 93.1 s", "a\nbest stage = 93.2 s", True),
        ("gap of the third is 3 minutes", "gap of the third is 4 minutes", True),
        ("fold 2: 0.25 s", "fold 2: 0.25 s", False),
        ("fold 2 took 0.25 s", "fold 2 took 0.31 s", False),
        ("best time: 37.2", "best time: 37.3", True),
        ("time: 37.2", "time: 37.3", False),
        ("elapsed: 37.2", "elapsed: 37.3", False),
        ("[time | 5.1 | loss 0.5", "[time | 5.2 | loss 0.5", False),
        ("training time: 0.25 s", "training time: 0.31 s", False),
        ("10/10 - 1s 12ms/step", "10/10 - 1s 13ms/step", False),
        ("speed: 8.5 it/s", "speed: 8.6 it/s", False),
        ("| a | duration |\n|---|---|\n| b | 3.25 |", "| a | duration |\n|---|---|\n| b | 3.75 |", True),
        ("   id  duration\n0   1      3.25", "   id  duration\n0   1      3.75", True),
        ("| a | fit_time |\n|---|---|\n| b | 3.25 |", "| a | fit_time |\n|---|---|\n| b | 3.75 |", False),
        ("at: 2026-11-21 05:16:03", "at: 2026-11-21 05:16:04", False),
    ],
)
def test_what_a_unit_alone_shows_is_quoted(before: str, after: str, found: bool) -> None:
    """A masked number under a name that may be a result's, if it differs; not what names a time, and no date."""
    lines = [*guessed("stdout", before.encode(), after.encode(), (MASKS, MASKS))]
    expected = TextDifference(path="stdout", line=before.count("\n") + 1, before="", after="")
    assert [(each.path, each.line) for each in lines] == [(expected.path, expected.line)] * found
    assert not lines or (lines[0].before, lines[0].after) == (before.split("\n")[-1], after.split("\n")[-1])


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("run 6545e411", "run ⟨name⟩"),
        ("run 6545e411-d473-45c4-8e0b-204942dfc7da", "run ⟨name⟩"),
        ("run 6545e411d47345c48e0b204942dfc7da", "run ⟨name⟩"),
        ("run 6545e411-d473-15c4-8e0b-204942dfc7da", "run ⟨name⟩-d473-15c4-8e0b-204942dfc7da"),
        ("run 6545e411-17", "run ⟨name⟩-17"),
    ],
)
def test_a_name_that_begins_a_uuid(text: str, masked: str) -> None:
    """``runs/{run_id[:8]}``, and the whole identity in the log: only what has the form of one is its rest."""
    assert MASKS.with_files(["6545e411"], dict).mask(text).text == masked


@pytest.mark.parametrize(
    ("key", "masked"),
    [("load_ms", True), ("fit_ms", True), ("survival_ms", False), ("threshold_ms", False), ("window_ms", False)],
)
def test_milliseconds_in_structured_logs_are_guessed(key: str, masked: bool) -> None:
    """Where the whole key is that of a time; experiments show whether it is one."""
    found = MASKS.mask(f'{{"message": "done", "{key}": 9.9, "rows": 442}}')
    assert (found.guessed, "⟨time⟩" in found.text) == (masked, masked)
    assert '"rows": 442' in found.text


def test_lines_of_catboost_leave_no_guess() -> None:
    """What has a total and what remains behind tabs is time; a total by itself may be anything."""
    line = "0:\tlearn: 1.6192996\tbest: 1.6192996 (0)\ttotal: 54.3ms\tremaining: 491ms"
    masked = MASKS.mask(line)
    assert masked.text.split("\t") == [*line.split("\t")[:3], "total: ⟨time⟩", "remaining: ⟨time⟩"]
    assert not masked.guessed
    assert MASKS.mask("total: 54.3ms").guessed


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("training on 24 raw words (3 effective words) took 0.1s, 203 effective words/s",
         "training on 24 raw words (3 effective words) took ⟨time⟩, ⟨rate⟩"),
        ("EPOCH 1 - PROGRESS: at 12.50% examples, 8412 words/s, in_qsize 3, out_qsize 0",
         "EPOCH 1 - PROGRESS: at 12.50% examples, ⟨rate⟩"),
        ("she speaks 3.2 words/s", "she speaks 3.2 words/s"),
    ],
)  # fmt: skip
def test_rates_of_gensim(line: str, masked: str) -> None:
    """It notes them in its models; how fast somebody speaks is a result."""
    assert MASKS.mask(line).text == masked


@pytest.mark.parametrize(
    ("after", "line"),
    [
        (b"epoch 1\nbest e3a5f1d3-4e2b-4b7c-a9f6-6e1d3b8c5a09\n", 2),
        (b"epoch 1\nbest 7e9d2b5a-1c8f-4a3e-b6d4-2f0a9c7e1b83\n", 0),
        (b"epoch 2\nbest e3a5f1d3-4e2b-4b7c-a9f6-6e1d3b8c5a09\n", 0),
    ],
)
def test_the_first_line_with_another_name(after: bytes, line: int) -> None:
    """Of streams that are equal but for what looks drawn."""
    before = b"epoch 1\nbest 7e9d2b5a-1c8f-4a3e-b6d4-2f0a9c7e1b83\n"
    found = other_names("stdout", before, after, (MASKS, MASKS))
    assert (found.line if found is not None else 0) == line


@pytest.mark.parametrize(
    "line",
    [
        "3.11.2 (main, Oct  7 2021, {}) [GCC 12.2.0]",
        "2024-01-05 {}  0.5",
        "1987-01-05T{}+00:00",
        "Fri, 05 Jan 2024 {} +0000",
        "built 05-Jan-2024 {} by gcc",
        "Sat Oct  7 {} 2023",
        "Sat Oct  7 {} UTC 2023",
    ],
)
def test_a_time_of_another_day_is_masked_in_no_run(line: str) -> None:
    """Data and the date of a build are the same text in all runs, also in one that was in this minute of an hour."""
    start = 1_795_247_100.0 // 900 * 900
    runs = [Masks(start + later).with_files((), dict, 5.0, strict=True) for later in (2, 400)]
    found = [each.mask(line.format("08:15:04")) for each in runs]
    assert found[0] == found[1]
    assert not found[0].kinds
    assert runs[0].mask(line.format("08:15:04")).text != runs[0].mask(line.format("08:15:05")).text
    assert Masks(start).mask(line.format("08:15:04")) == found[0]  # what a run by itself records
    assert "times" in Masks(start, moments=False).mask(line.format("08:15:04")).kinds  # days are then proven otherwise


@pytest.mark.parametrize(
    "line",
    ["{0:%d %b %Y} {1}", "{0:%a %b %d} {1} {0:%Y}", "07/11/2024 {1}", "at {1}", "2024-13-05 {1}", "eta 2024-01-05 {1}"],
)
def test_a_time_that_may_be_of_the_runs_day_is_masked(line: str) -> None:
    """With the run's own date, with one that may be read in two ways, without any, and where it is an estimate."""
    start = 1_795_247_100.0
    masks = Masks(start).with_files((), dict, 5.0, strict=True)
    moment = datetime.fromtimestamp(start + 3, timezone.utc)
    assert "times" in masks.mask(line.format(moment, f"{moment:%H:%M:%S}")).kinds


def test_known_lines_are_those_of_the_same_run_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a run's stream are masked once; another run, other options and another text have their own."""
    text = b"done at 2026-11-21 07:56:03\nloss: 0.25\n"
    masked = [row.masked.text for row in rows(text, MASKS)]
    one, other = object(), object()

    def by(*origin: object, start: float = START) -> Masks:
        found = Masks(start)
        found.origin = origin
        return found

    assert [row.masked.text for row in rows(text, by(one, (), frozenset()))] == masked
    with monkeypatch.context() as context:
        context.setattr(masks.Masks, "mask", lambda *_: pytest.fail("masked again"))
        assert [row.masked.text for row in rows(text, by(one, (), frozenset()))] == masked
    for origin in ((other, (), frozenset()), (one, ("loss*",), frozenset()), (one, (), frozenset([1]))):
        found = [row.masked.text for row in rows(text, by(*origin, start=0.0))]
        assert found == ["done at 2026-11-21 07:56:03", "loss: 0.25"]
    assert [row.masked.text for row in rows(text[:-6] + b"\n", by(one, (), frozenset()))] == [masked[0], "loss:"]
    assert by(one).with_days(START, 1.0).origin == by(one).with_files((), dict).origin == ()


def test_half_of_the_day_behind_a_time() -> None:
    """A time without seconds is masked with what says which half of the day it is; a word behind it counts."""
    masks = Masks(1_795_247_763.0)
    one, other = (masks.mask(f"Generated at {time}, loss 0.5").text for time in ("07:40 AM", "2:41 pm"))
    assert one == other
    assert masks.mask("Started at 07:40 amber").text != masks.mask("Started at 07:40 pmber").text
    assert masks.mask("score 07:40 AM").text != masks.mask("score 07:40 PM").text
