"""Results and events as text or JSON: values in, text out, nothing printed."""
