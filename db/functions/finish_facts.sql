CREATE OR REPLACE FUNCTION livebox.finish_facts(p_run livebox.runs, p_body jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT p_body - ARRAY['state', 'reason', 'metrics', 'cost']
        || jsonb_build_object('step_count', p_run.step_count)
        || CASE WHEN p_body ? 'cost' THEN jsonb_build_object(
               'cost_micros', p_body->'cost'->'amount_micros',
               'currency', p_body->'cost'->'currency',
               'cost_is_estimate', p_body->'cost'->'is_estimate') ELSE '{}' END
        || CASE WHEN p_body ? 'metrics' THEN jsonb_build_object('document', p_run.document || jsonb_build_object(
               'metrics', coalesce(p_run.document->'metrics', '{}') || livebox.metrics_in_utc(p_body->'metrics'))) ELSE '{}' END
$$;
COMMENT ON FUNCTION livebox.finish_facts(livebox.runs, jsonb) IS
    'What a report of the end changes beside the state, by column; metrics join those of the document.';
