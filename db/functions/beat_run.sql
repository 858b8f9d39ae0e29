CREATE OR REPLACE FUNCTION livebox.beat_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_hold livebox.run_hold := livebox.held_run(p_caller, p_args);
    v_run  livebox.runs := v_hold.run;
    v_seen boolean;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    v_seen := coalesce((p_args->'body'->>'cancel_seen')::boolean, false)
              AND v_run.cancel_requested_at IS NOT NULL AND v_run.cancel_acknowledged_at IS NULL;
    UPDATE livebox.runs r
       SET cancel_acknowledged_at = CASE WHEN v_seen THEN livebox.run_now(v_run) ELSE r.cancel_acknowledged_at END,
           version = CASE WHEN v_seen THEN v_run.version_reserved + 1 ELSE r.version END,
           version_reserved = CASE WHEN v_seen THEN v_run.version_reserved + 1 ELSE r.version_reserved END,
           holder_seen_at = v_run.holder_seen_at,
           last_heartbeat_at = v_run.last_heartbeat_at,
           renewed_from_jti = v_run.renewed_from_jti
     WHERE r.id = v_run.id AND r.state = v_run.state AND r.version = v_run.version
    RETURNING r.* INTO STRICT v_run;
    IF v_seen THEN
        PERFORM livebox.run_event('run.changed', v_run, v_run.agent_id,
                                  jsonb_build_object('cancel', livebox.run_cancel_json(v_run)));
    END IF;
    RETURN livebox.done('ok', livebox.heartbeat_json(v_run, p_args));
END $$;
COMMENT ON FUNCTION livebox.beat_run(jsonb, jsonb) IS
    'A sign of life that has something to write: that the holder knows of the request to cancel (cancel_seen), once, or that it uses its renewed token. Needs the limit invocation.ttl.';
