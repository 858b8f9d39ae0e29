CREATE OR REPLACE FUNCTION livebox.delete_thread(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me     uuid := livebox.caller_id(caller);
    v_id     uuid := (args->>'thread_id')::uuid;
    v_denial text;
    v_thread livebox.threads;
    v_run    livebox.runs;
    v_change livebox.run_change;
BEGIN
    v_denial := livebox.authorize(v_me, 'structure.manage', jsonb_build_object('thread_id', v_id));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT * INTO v_thread FROM livebox.threads t WHERE t.id = v_id FOR NO KEY UPDATE;
    IF v_thread.is_main THEN
        RETURN livebox.refused('main_thread');
    ELSIF NOT livebox.version_matches(args, v_thread.version) THEN
        RETURN livebox.refused('version_mismatch');
    END IF;
    UPDATE livebox.threads t
       SET deleted_at = greatest(livebox.clock(), t.updated_at), updated_at = greatest(livebox.clock(), t.updated_at), version = t.version + 1
     WHERE t.id = v_id
    RETURNING * INTO v_thread;
    -- There is one at most, and from here on neither its agent nor anybody else could end it.
    v_run := livebox.active_run(v_id);
    IF v_run.id IS NOT NULL THEN
        v_change := livebox.transition_run(v_run, 'cancelled', 'thread_deleted', 'server', v_me, '{}', args->'limits');
    END IF;
    PERFORM livebox.append_thread_event('thread.deleted', v_thread, v_me, jsonb_build_object('thread_id', v_id));
    RETURN livebox.done('no_content', NULL, effects => v_change.effects);
END $$;
COMMENT ON FUNCTION livebox.delete_thread(jsonb, jsonb) IS
    'deleteThread: for who manages the channel. Its messages and runs are not there any more for anybody; the run that is active there ends with it. Needs the limit event.body_max_bytes.';
