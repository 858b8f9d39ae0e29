CREATE OR REPLACE FUNCTION livebox.spend_entry_json(p_entry livebox.run_spend) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'id', p_entry.id,
        'run_id', p_entry.run_id,
        'agent_id', p_entry.agent_id,
        'amount_micros', p_entry.amount_micros,
        'currency', p_entry.currency,
        'tokens', p_entry.tokens,
        'recorded_at', livebox.utc(p_entry.recorded_at),
        'late', nullif(p_entry.late, false)))
$$;
COMMENT ON FUNCTION livebox.spend_entry_json(livebox.run_spend) IS 'An entry of spend as clients see it.';
