-- What the watch over runs looks things up by: each deadline has an index in the order in which it passes, over the
-- runs that can meet it, so that a sweep reads what is due and nothing else however many runs are active.

-- What lets a run wait for its agent again: an answer to its question. Follow-ups of a run at work wait for nobody.
ALTER TABLE livebox.run_followups ADD COLUMN answers boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN livebox.run_followups.answers IS 'It arrived while its run waited for input: the time for its agent to take it counts from then.';
UPDATE livebox.run_followups f SET answers = true
  FROM livebox.runs r
 WHERE r.id = f.run_id AND r.state = 'waiting_input' AND f.state = 'pending';

CREATE INDEX run_followups_answering ON livebox.run_followups (at, run_id) WHERE state = 'pending' AND answers;
COMMENT ON INDEX livebox.run_followups_answering IS 'Answers that no agent has taken, oldest first (run.delivery_timeout).';
CREATE INDEX runs_undelivered ON livebox.runs (queued_at, id)
    WHERE state = 'queued' AND trigger_kind <> 'registration';
COMMENT ON INDEX livebox.runs_undelivered IS 'Queued runs, oldest first (run.delivery_timeout).';
CREATE INDEX runs_silent ON livebox.runs ((greatest(last_heartbeat_at, last_progress_at, state_changed_at)), id)
    WHERE state = 'running' AND trigger_kind <> 'registration';
COMMENT ON INDEX livebox.runs_silent IS 'Running runs by when they were last heard of (run.stale_after).';
CREATE INDEX runs_unmoved ON livebox.runs ((greatest(last_progress_at, state_changed_at)), id)
    WHERE state = 'running' AND trigger_kind <> 'registration' AND stalled_since IS NULL;
COMMENT ON INDEX livebox.runs_unmoved IS 'Running runs by when they last moved, but those that show as stalled (run.stall_after).';
CREATE INDEX runs_moving_again ON livebox.runs (last_progress_at, id)
    WHERE stalled_since IS NOT NULL AND last_progress_at > stalled_since;
COMMENT ON INDEX livebox.runs_moving_again IS 'Runs that show as stalled and are not.';
CREATE INDEX runs_cancel_due ON livebox.runs (cancel_deadline, id)
    WHERE state = 'running' AND cancel_deadline IS NOT NULL;
COMMENT ON INDEX livebox.runs_cancel_due IS 'Running runs that were asked to stop, by until when they may answer (run.cancel_timeout).';
