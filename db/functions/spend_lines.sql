CREATE OR REPLACE FUNCTION livebox.spend_lines(p_runs uuid[]) RETURNS TABLE (run_id uuid, agent_id uuid, user_dims jsonb, line jsonb)
LANGUAGE sql STABLE AS $$
    SELECT s.run_id, s.agent_id, (SELECT r.user_dims FROM livebox.runs r WHERE r.id = s.run_id),
           jsonb_strip_nulls(jsonb_build_object(
               'run_id', s.run_id, 'amount_micros', sum(s.amount_micros), 'currency', s.currency, 'is_estimate', false,
               'entries', count(*), 'tokens', sum(s.tokens)))
      FROM livebox.run_spend s WHERE s.run_id = ANY (p_runs)
     GROUP BY s.run_id, s.agent_id, s.currency
    UNION ALL
    SELECT r.id, r.agent_id, r.user_dims, jsonb_build_object(
               'run_id', r.id, 'amount_micros', r.cost_micros, 'currency', r.currency,
               'is_estimate', r.cost_is_estimate, 'entries', 0)
      FROM livebox.runs r WHERE r.id = ANY (p_runs) AND r.spend_entries = 0 AND r.cost_micros IS NOT NULL
$$;
COMMENT ON FUNCTION livebox.spend_lines(uuid[]) IS
    'What runs have spent, a line for each run, agent and currency, as spend_totals adds them up; of a run without a ledger the cost that was reported, as its agent''s.';
