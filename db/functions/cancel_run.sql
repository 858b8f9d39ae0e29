CREATE OR REPLACE FUNCTION livebox.cancel_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me     uuid := (p_caller->>'principal')::uuid;
    v_denial text := livebox.authorize(v_me, 'run.cancel', jsonb_build_object('run_id', p_args->>'run_id'));
    v_run    livebox.runs;
    v_change livebox.run_change;
BEGIN
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = (p_args->>'run_id')::uuid FOR NO KEY UPDATE;
    IF v_run.state = 'cancelled' THEN
        RETURN livebox.done('ok', livebox.run_json(v_run), v_run.version);
    ELSIF v_run.finished_at IS NOT NULL THEN
        RETURN livebox.run_conflict('run_ended', v_run, livebox.caller_id(p_caller));
    ELSIF v_run.state = 'running' AND v_run.trigger_kind <> 'registration' THEN
        IF v_run.cancel_requested_at IS NULL THEN
            v_run := livebox.ask_cancel(v_run, v_me, p_args->'limits');
        END IF;
        RETURN livebox.done('accepted', livebox.run_json(v_run), v_run.version);
    END IF;
    v_change := livebox.transition_run(v_run, 'cancelled', 'user_cancelled', 'server', v_me,
                                       jsonb_strip_nulls(jsonb_build_object(
                                           'cancel_requested_by', v_me,
                                           'cancel_outcome', CASE WHEN v_run.state = 'running' THEN 'forced' END)), p_args->'limits');
    v_run := v_change.run;
    RETURN livebox.done('ok', livebox.run_json(v_run), v_run.version, effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.cancel_run(jsonb, jsonb) IS
    'Cancels a run that waits, and a registered one, at once and without its agent; asks the agent of another that is running. ok: it has ended cancelled; accepted: it is asked for. Repeats change nothing. Needs the limits run.cancel_timeout and event.body_max_bytes.';
