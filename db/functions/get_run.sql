CREATE OR REPLACE FUNCTION livebox.get_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_denial text;
    v_run    livebox.runs;
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize((p_caller->>'principal')::uuid, 'run.read', jsonb_build_object('run_id', p_args->>'run_id'));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid;
    RETURN livebox.done('ok', livebox.run_json(v_run), v_run.version, effects => CASE
        WHEN v_run.live_owner IS NOT NULL AND NOT v_run.document_final THEN jsonb_build_array(jsonb_build_object(
            'kind', 'run.live', 'owner', v_run.live_owner, 'epoch', v_run.live_epoch)) END);
END $$;
COMMENT ON FUNCTION livebox.get_run(jsonb, jsonb) IS 'One run, whole, as it was last saved; an effect says which process has a newer live document, if any has.';
