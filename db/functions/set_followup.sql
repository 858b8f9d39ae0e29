CREATE OR REPLACE FUNCTION livebox.set_followup(p_run livebox.runs, p_message uuid, p_state text) RETURNS livebox.runs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_run livebox.runs;
BEGIN
    UPDATE livebox.run_followups f
       SET state = p_state, at = greatest(livebox.run_now(p_run), f.at),
           answers_since = CASE WHEN p_state = 'delivered' THEN f.answers_since END
     WHERE f.run_id = p_run.id AND f.message_id = p_message;
    UPDATE livebox.runs r
       SET version = p_run.version_reserved + 1,
           version_reserved = p_run.version_reserved + 1,
           holder_seen_at = p_run.holder_seen_at,
           last_heartbeat_at = p_run.last_heartbeat_at,
           renewed_from_jti = p_run.renewed_from_jti
     WHERE r.id = p_run.id AND r.state = p_run.state AND r.version = p_run.version
    RETURNING r.* INTO v_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run changed under its lock' USING ERRCODE = 'LB120';
    END IF;
    RETURN v_run;
END $$;
COMMENT ON FUNCTION livebox.set_followup(livebox.runs, uuid, text) IS
    'Puts a follow-up of an active run that was read under lock into another state; raises the run''s version and gives the run after it.';
