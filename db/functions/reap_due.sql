-- Only a first look, without locks on runs: each run is looked at again under its lock before anything is done to it
-- (reap_run). The lock here saves two processes from looking for the same at the same time; it decides nothing.
CREATE OR REPLACE FUNCTION livebox.reap_due(
    p_cause text, p_after_at timestamptz, p_after_id uuid, p_limits jsonb, p_chunk bigint)
RETURNS TABLE (due_from timestamptz, run_id uuid) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now  timestamptz := livebox.clock();
    v_key  text := CASE p_cause WHEN 'undelivered' THEN 'run.delivery_timeout' WHEN 'unanswered' THEN 'run.delivery_timeout'
                                WHEN 'uncancelled' THEN 'run.cancel_timeout' WHEN 'left' THEN 'run.interrupt_grace' WHEN 'silent' THEN 'run.stale_after'
                                WHEN 'unmoved' THEN 'run.stall_after'
                                WHEN 'abandoned' THEN 'registered.stale_after' END;
    v_time interval := make_interval(secs => (p_limits->>v_key)::double precision);
    v_last timestamptz := v_now - v_time;
BEGIN
    IF v_time = interval '0' OR livebox.service_since(v_now, p_limits) + v_time > v_now
       OR NOT pg_try_advisory_xact_lock(7813573131204158317) THEN
        RETURN;
    END IF;
    CASE p_cause
    WHEN 'undelivered' THEN
        RETURN QUERY SELECT r.queued_at, r.id FROM livebox.runs r
         WHERE r.state = 'queued' AND r.trigger_kind <> 'registration'
           AND r.queued_at <= v_last AND (r.queued_at, r.id) > (p_after_at, p_after_id)
         ORDER BY r.queued_at, r.id LIMIT p_chunk;
    WHEN 'unanswered' THEN
        RETURN QUERY SELECT f.answers_since, f.run_id FROM livebox.run_followups f
         WHERE f.answers_since <= v_last AND (f.answers_since, f.run_id) > (p_after_at, p_after_id)
         ORDER BY f.answers_since, f.run_id LIMIT p_chunk;
    WHEN 'uncancelled' THEN
        RETURN QUERY SELECT r.cancel_deadline, r.id FROM livebox.runs r
         WHERE r.state = 'running' AND r.cancel_deadline IS NOT NULL
           AND r.cancel_deadline <= v_now AND (r.cancel_deadline, r.id) > (p_after_at, p_after_id)
         ORDER BY r.cancel_deadline, r.id LIMIT p_chunk;
    WHEN 'left' THEN
        RETURN QUERY SELECT r.session_closed_at, r.id FROM livebox.runs r
         WHERE r.state = 'running' AND r.session_closed_at >= greatest(r.last_heartbeat_at, r.last_progress_at, r.state_changed_at)
           AND r.session_closed_at <= v_last AND (r.session_closed_at, r.id) > (p_after_at, p_after_id)
         ORDER BY r.session_closed_at, r.id LIMIT p_chunk;
    WHEN 'silent' THEN
        RETURN QUERY SELECT greatest(r.last_heartbeat_at, r.last_progress_at, r.state_changed_at), r.id FROM livebox.runs r
         WHERE r.state = 'running' AND r.trigger_kind <> 'registration'
           AND greatest(r.last_heartbeat_at, r.last_progress_at, r.state_changed_at) <= v_last
           AND (greatest(r.last_heartbeat_at, r.last_progress_at, r.state_changed_at), r.id) > (p_after_at, p_after_id)
         ORDER BY 1, 2 LIMIT p_chunk;
    WHEN 'unmoved' THEN
        RETURN QUERY SELECT greatest(r.last_progress_at, r.state_changed_at), r.id FROM livebox.runs r
         WHERE r.state = 'running' AND r.trigger_kind <> 'registration' AND r.stalled_since IS NULL
           AND greatest(r.last_progress_at, r.state_changed_at) <= v_last
           AND (greatest(r.last_progress_at, r.state_changed_at), r.id) > (p_after_at, p_after_id)
         ORDER BY 1, 2 LIMIT p_chunk;
    WHEN 'abandoned' THEN
        RETURN QUERY SELECT greatest(r.last_progress_at, r.state_changed_at), r.id FROM livebox.runs r
         WHERE r.state = 'running' AND r.trigger_kind = 'registration'
           AND greatest(r.last_progress_at, r.state_changed_at) <= v_last
           AND (greatest(r.last_progress_at, r.state_changed_at), r.id) > (p_after_at, p_after_id)
         ORDER BY 1, 2 LIMIT p_chunk;
    WHEN 'moving' THEN
        RETURN QUERY SELECT r.last_progress_at, r.id FROM livebox.runs r
         WHERE r.stalled_since IS NOT NULL AND r.last_progress_at > r.stalled_since
           AND (r.last_progress_at, r.id) > (p_after_at, p_after_id)
         ORDER BY r.last_progress_at, r.id LIMIT p_chunk;
    END CASE;
END $$;
COMMENT ON FUNCTION livebox.reap_due(text, timestamptz, uuid, jsonb, bigint) IS
    'Runs that look due for a cause (see reap_cause), the longest due first, at most p_chunk and only those behind (p_after_at, p_after_id); none while another process looks. Needs the limits of reap_cause.';
