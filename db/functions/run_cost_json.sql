CREATE OR REPLACE FUNCTION livebox.run_cost_json(p_run livebox.runs) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_run.cost_micros IS NOT NULL THEN jsonb_build_object(
        'amount_micros', p_run.cost_micros, 'currency', p_run.currency, 'is_estimate', p_run.cost_is_estimate) END
$$;
COMMENT ON FUNCTION livebox.run_cost_json(livebox.runs) IS 'The cost of a run as Money; NULL while none is known.';
