CREATE OR REPLACE FUNCTION livebox.register_run(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(p_caller);
    v_body    jsonb := p_args->'body';
    v_state   text := coalesce(v_body->>'state', 'running');
    v_now     timestamptz := livebox.clock();
    v_agent   livebox.principals;
    v_refusal livebox.answer;
    v_run     livebox.runs;
BEGIN
    IF livebox.authorize(v_me, 'run.register', '{}') IS NOT NULL THEN
        RETURN livebox.refused('forbidden');
    END IF;
    SELECT * INTO v_run FROM livebox.runs r WHERE r.id = (v_body->>'run_id')::uuid;
    IF FOUND THEN
        RETURN livebox.run_conflict('run_already_registered', v_run, v_me);
    END IF;
    v_refusal := livebox.unfit_registration(v_me, v_body);
    IF v_refusal.code IS NOT NULL THEN
        RETURN v_refusal;
    END IF;
    SELECT * INTO v_agent FROM livebox.principals p WHERE p.id = (v_body->>'agent_id')::uuid;
    INSERT INTO livebox.runs (
        id, agent_id, state, trigger_kind, billing_mode_expected, queued_at, state_changed_at, state_changed_by, started_at,
        last_progress_at, external_id, intent, task, user_dims, mode, parent_run_id, parent_span, registered_at, registered_by,
        agents, budget, reported_started_at)
    VALUES (
        (v_body->>'run_id')::uuid, v_agent.id, v_state, 'registration', v_agent.billing_mode, v_now, v_now, v_me,
        CASE WHEN v_state = 'running' THEN v_now END, v_now, v_body->>'external_id', v_body->>'intent', v_body->>'task',
        v_body->'user_dims', v_body->>'mode', (v_body->>'parent_run_id')::uuid, v_body->>'parent_span', v_now, v_me,
        v_agent.id || ARRAY(SELECT a::uuid FROM jsonb_array_elements_text(v_body->'agents') WITH ORDINALITY AS l(a, n)
                             WHERE a::uuid <> v_agent.id ORDER BY n),
        v_body->'budget', livebox.time_of(v_body->>'started_at'))
    RETURNING * INTO v_run;
    PERFORM livebox.run_event('run.registered', v_run, v_me);
    PERFORM livebox.run_event('run.state_changed', v_run, v_me);
    RETURN livebox.done('created', livebox.run_json(v_run), v_run.version, 'run', v_run.id::text);
END $$;
COMMENT ON FUNCTION livebox.register_run(jsonb, jsonb) IS
    'registerRun: a run that no message opens, once under its id. Another under that id is refused whatever it says.';
