-- The agent of a run that ended with its thread may go on asking, so that it hears of the end and stops.
CREATE OR REPLACE FUNCTION livebox.authorize_run(p_principal uuid, p_action text, p_run uuid) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_run   record;
    v_level smallint;
    v_me    record;
    v_named boolean;
    v_seen  boolean;
BEGIN
    SELECT r.thread_id, r.agent_id, r.state_reason, r.triggered_by, r.registered_by, r.agents, r.user_dims,
           CASE WHEN t.deleted_at IS NULL THEN t.channel_id END AS channel_id
      INTO v_run
      FROM livebox.runs r LEFT JOIN livebox.threads t ON t.id = r.thread_id
     WHERE r.id = p_run;
    SELECT p.role INTO v_me FROM livebox.principals p WHERE p.id = p_principal AND p.status = 'active';
    IF v_run.agent_id IS NOT NULL AND v_run.thread_id IS NULL THEN
        v_named := coalesce(v_run.registered_by = p_principal OR p_principal = ANY (v_run.agents) OR v_run.agent_id = p_principal, false);
        v_seen := v_named OR v_me.role = 'owner' OR coalesce(v_run.user_dims->>'user_id' = p_principal::text, false);
        IF NOT livebox.caller_active(jsonb_build_object('principal', p_principal)) OR v_seen IS NOT TRUE THEN
            PERFORM livebox.channel_level(p_principal, v_run.channel_id);  -- as for one that is not there
            RETURN 'not_found';
        END IF;
        RETURN CASE
            WHEN p_action = 'run.read' THEN NULL
            WHEN p_action = 'run.update' AND NOT v_named THEN 'forbidden'
            WHEN p_action = 'run.cancel' AND v_run.registered_by <> p_principal AND v_me.role IS NULL
                 AND v_run.user_dims->>'user_id' IS DISTINCT FROM p_principal::text THEN 'forbidden'
            WHEN p_action = 'run.control' AND v_run.agent_id <> p_principal THEN 'forbidden'
        END;
    END IF;
    v_level := livebox.channel_level(p_principal, v_run.channel_id);
    RETURN CASE
        WHEN p_action = 'run.control' AND v_run.agent_id = p_principal
             AND (v_run.channel_id IS NOT NULL OR v_run.state_reason = 'thread_deleted')
             AND livebox.caller_active(jsonb_build_object('principal', p_principal)) THEN NULL
        WHEN v_level < 1 THEN 'not_found'
        WHEN p_action = 'run.read' THEN NULL
        WHEN p_action = 'run.update' THEN 'not_found'  -- it was never registered
        WHEN p_action = 'run.cancel' AND (v_run.triggered_by = p_principal OR v_level >= 4) THEN NULL
        ELSE 'forbidden'
    END;
END $$;
COMMENT ON FUNCTION livebox.authorize_run(uuid, text, uuid) IS
    'run.read, run.cancel, run.control and run.update on one run, by where its thread is now; a run without a thread belongs to its registrar, its agents, the person it names, and owners. Used by authorize only.';
