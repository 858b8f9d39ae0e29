-- In the order in which it is told: who asks, whose end it is, whether it is over, what does not go together.
CREATE OR REPLACE FUNCTION livebox.update_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(p_caller);
    v_body    jsonb := p_args->'body';
    v_limits  jsonb := p_args->'limits';
    v_status  text := v_body->>'status';
    v_ends    boolean := coalesce(v_status IN ('completed', 'failed', 'cancelled'), false);
    v_hold    livebox.run_hold := livebox.registered_run(p_caller, p_args);
    v_run     livebox.runs := v_hold.run;
    v_new     livebox.runs;
    v_refusal livebox.answer;
    v_change  livebox.run_change;
    v_effects jsonb;
BEGIN
    IF (v_hold.refusal).code IS NOT NULL THEN
        RETURN v_hold.refusal;
    END IF;
    IF v_ends AND v_me NOT IN (v_run.agent_id, v_run.registered_by) THEN
        RETURN livebox.refused('status_not_yours');
    END IF;
    v_new := livebox.run_reported(v_run, v_me, v_body, v_limits);
    IF v_run.finished_at IS NOT NULL THEN
        IF NOT livebox.report_repeats(v_run, v_body) THEN
            RETURN livebox.run_conflict('run_ended', v_run, v_me);
        END IF;
        v_status := NULL;
        v_new := jsonb_populate_record(v_run, jsonb_strip_nulls(jsonb_build_object('reported_steps', v_new.reported_steps)));
    ELSE
        v_refusal := livebox.unfit_report(v_run, v_new, v_body, v_limits, v_me);
        IF v_refusal.code IS NOT NULL THEN
            RETURN v_refusal;
        END IF;
    END IF;
    IF v_status IS NULL THEN
        IF v_new IS NOT DISTINCT FROM v_run THEN
            RETURN livebox.run_answer(v_run.id);
        END IF;
        v_run := livebox.save_reported(v_run, v_new, v_me);
        v_change := livebox.end_exhausted(v_run, v_limits);
    ELSE
        v_change := livebox.report_status(v_run, v_new, v_status, v_me, v_limits);
        v_effects := v_change.effects;
        v_change := livebox.end_exhausted(v_change.run, v_limits);  -- with the steps that came along
    END IF;
    RETURN livebox.done('ok', livebox.run_json(v_change.run), (v_change.run).version, 'run', v_run.id::text,
                        effects => coalesce(v_effects || v_change.effects, v_effects, v_change.effects));
END $$;
COMMENT ON FUNCTION livebox.update_run(jsonb, jsonb) IS
    'updateRun: what may change of a registered run, all of it or nothing. After the end only step counts still come, and repeats of what is stored. Needs the limits run.step_detail_max_bytes, registered.currency, registered.governance_events_max and event.body_max_bytes.';
