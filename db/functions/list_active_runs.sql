CREATE OR REPLACE FUNCTION livebox.list_active_runs(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me     uuid := (p_caller->>'principal')::uuid;
    v_denial text;
    v_page   record;
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize(v_me, 'run.overview.read', '{}');
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT * INTO v_page
      FROM livebox.active_run_page(v_me, (p_args->>'limit')::bigint, p_args->'cursor', (p_args->>'agent_id')::uuid, p_args->>'state');
    RETURN livebox.done('ok', jsonb_build_object('items', v_page.items), cursor => v_page.cursor, effects => v_page.effects);
END $$;
COMMENT ON FUNCTION livebox.list_active_runs(jsonb, jsonb) IS 'A page of the active runs that the caller may see; an agent that is not there or not seen gives an empty one.';
