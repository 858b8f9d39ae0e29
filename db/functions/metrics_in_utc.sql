CREATE OR REPLACE FUNCTION livebox.metrics_in_utc(p_metrics jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT p_metrics || CASE WHEN p_metrics ? 'last_api_retry' THEN jsonb_build_object('last_api_retry',
        p_metrics->'last_api_retry' || (SELECT jsonb_object_agg(t.name, livebox.utc(livebox.time_of(t.at)))
                                          FROM jsonb_each_text(p_metrics->'last_api_retry') AS t(name, at)
                                         WHERE t.name IN ('at', 'next_at'))) ELSE '{}' END
$$;
COMMENT ON FUNCTION livebox.metrics_in_utc(jsonb) IS
    'Metrics as an agent reported them, their times as clients see all times. An agent may write any offset.';
