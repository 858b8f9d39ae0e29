CREATE OR REPLACE FUNCTION livebox.spend_totals(p_lines jsonb, p_runs bigint DEFAULT NULL) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    WITH lines AS (
        SELECT value AS line FROM jsonb_array_elements(p_lines)
    ), costs AS (
        SELECT line->>'currency' AS currency, least(sum((line->>'amount_micros')::numeric), 9007199254740991) AS amount,
               bool_or((line->>'is_estimate')::boolean) AS estimate
          FROM lines GROUP BY 1
    )
    SELECT CASE WHEN p_lines IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
        'runs', coalesce(p_runs, (SELECT count(DISTINCT line->>'run_id') FROM lines)),
        'entries', (SELECT coalesce(sum((line->>'entries')::bigint), 0) FROM lines),
        'tokens', (SELECT CASE WHEN count(line->'tokens') > 0 THEN least(sum((line->>'tokens')::numeric), 9007199254740991) END FROM lines),
        'costs', (SELECT jsonb_agg(jsonb_build_object('amount_micros', amount, 'currency', currency, 'is_estimate', estimate)
                                   ORDER BY currency) FROM costs))) END
$$;
COMMENT ON FUNCTION livebox.spend_totals(jsonb, bigint) IS
    'Adds lines of spend up: {run_id, amount_micros, currency, is_estimate, entries, tokens?}; each currency by itself, at most 2^53 - 1. NULL of none. p_runs: how many runs are in it, where that is not how many have spent.';
