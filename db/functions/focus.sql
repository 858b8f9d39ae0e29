-- One statement for what is there and what is not, seen or hidden: nothing tells them apart.
CREATE OR REPLACE FUNCTION livebox.focus(p_caller jsonb, p_args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(p_caller);
    v_threads jsonb;
    v_runs    jsonb;
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
               'thread_id', t.id, 'channel_id', t.channel_id,
               'run_id', (SELECT r.id FROM livebox.runs r
                           WHERE r.thread_id = t.id AND r.state IN ('queued', 'running', 'waiting_input'))))
               ORDER BY asked.place), '[]')
      INTO v_threads
      FROM jsonb_array_elements_text(coalesce(p_args->'thread_ids', '[]')) WITH ORDINALITY AS asked (id, place)
      LEFT JOIN livebox.threads t ON t.id = asked.id::uuid AND t.deleted_at IS NULL
     WHERE livebox.channel_level(v_me, t.channel_id) > 0;
    SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
               'run_id', r.id, 'thread_id', r.thread_id, 'channel_id', t.channel_id)) ORDER BY asked.place), '[]')
      INTO v_runs
      FROM jsonb_array_elements_text(coalesce(p_args->'run_ids', '[]')) WITH ORDINALITY AS asked (id, place)
      LEFT JOIN livebox.runs r ON r.id = asked.id::uuid
      LEFT JOIN livebox.threads t ON t.id = r.thread_id
     WHERE livebox.authorize(v_me, 'run.read', jsonb_build_object('run_id', asked.id)) IS NULL;
    RETURN livebox.done('ok', jsonb_build_object('threads', v_threads, 'runs', v_runs));
END $$;
COMMENT ON FUNCTION livebox.focus(jsonb, jsonb) IS
    'What of args.thread_ids and args.run_ids the caller may look at: threads with their channel and active run, runs with their thread and channel. The rest is left out, whatever the reason.';
