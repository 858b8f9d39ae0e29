-- What the gateway looks things up by.

CREATE INDEX runs_left ON livebox.runs (session_closed_at, id)
    WHERE state = 'running' AND session_closed_at >= greatest(last_heartbeat_at, last_progress_at, state_changed_at);
COMMENT ON INDEX livebox.runs_left IS 'Running runs whose holder''s gateway session closed and that were not heard of since (run.interrupt_grace).';
COMMENT ON COLUMN livebox.runs.session_closed_at IS 'When the last gateway session of the present claim closed; NULL while one is open, and for a holder that never had one.';
