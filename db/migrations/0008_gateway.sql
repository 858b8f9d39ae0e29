-- What the gateway looks things up by.

CREATE INDEX runs_left ON livebox.runs (session_closed_at, id)
    WHERE state = 'running' AND session_closed_at >= greatest(last_heartbeat_at, last_progress_at, state_changed_at);
COMMENT ON INDEX livebox.runs_left IS 'Running runs whose holder''s gateway session closed and that were not heard of since (run.interrupt_grace).';
COMMENT ON COLUMN livebox.runs.session_closed_at IS 'When the last gateway session of the present claim closed; NULL while one is open, and for a holder that never had one.';
CREATE INDEX runs_cancel_asked ON livebox.runs (agent_id, cancel_requested_at, id)
    WHERE state = 'running' AND cancel_deadline IS NOT NULL;
COMMENT ON INDEX livebox.runs_cancel_asked IS 'Running runs of an agent that were asked to stop, in the order of asking.';
