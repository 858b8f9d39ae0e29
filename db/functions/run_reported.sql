CREATE OR REPLACE FUNCTION livebox.run_reported(p_run livebox.runs, p_me uuid, p_body jsonb, p_limits jsonb) RETURNS livebox.runs
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_body ? 'steps' THEN
        p_run.reported_steps := coalesce(p_run.reported_steps, '{}') || jsonb_build_object(
            p_me::text, greatest((p_body->>'steps')::bigint, (p_run.reported_steps->>p_me::text)::bigint));
    END IF;
    IF p_body ? 'cost_micros' THEN
        p_run.cost_micros := (p_body->>'cost_micros')::bigint;
        p_run.currency := coalesce(p_run.budget->'cost'->>'currency', p_limits->>'registered.currency');
        p_run.cost_is_estimate := true;
    END IF;
    p_run.halt_reason := coalesce(p_body->>'halt_reason', p_run.halt_reason);
    p_run.detector := coalesce(p_body->>'detector', p_run.detector);
    p_run.reported_ended_at := coalesce(livebox.time_of(p_body->>'ended_at'), p_run.reported_ended_at);
    IF p_body ? 'governance_events' THEN
        p_run.governance_events := coalesce(p_run.governance_events, '[]') || (p_body->'governance_events');
    END IF;
    RETURN p_run;
END $$;
COMMENT ON FUNCTION livebox.run_reported(livebox.runs, uuid, jsonb, jsonb) IS
    'A registered run with what a report says in it, but for its status. A count of steps never falls. Needs the limit registered.currency.';
