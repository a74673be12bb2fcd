"""Operations: notifications, telemetry, traces, and maintenance of stores."""
