CREATE OR REPLACE FUNCTION livebox.count_active_runs(args jsonb) RETURNS livebox.answer LANGUAGE sql STABLE AS $$
    SELECT livebox.done('ok', coalesce(jsonb_agg(jsonb_build_array(counted.handle, counted.state, counted.runs)
                                                 ORDER BY counted.handle, counted.state), '[]'))
      FROM (SELECT p.handle, r.state, count(*) AS runs
              FROM livebox.runs r JOIN livebox.principals p ON p.id = r.agent_id
             WHERE r.state IN ('queued', 'running', 'waiting_input')
             GROUP BY p.handle, r.state) AS counted
$$;
COMMENT ON FUNCTION livebox.count_active_runs(jsonb) IS
    'How many runs are active: [[agent handle, state, count], ...]. For the metrics of the server; no route leads to it and it names no run.';
