-- Who takes over a run that waits gets all that it was told, taken or not: the work of the holder before is lost.
CREATE OR REPLACE FUNCTION livebox.invocation_json(p_run livebox.runs, p_limits jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    WITH invocation AS (
        SELECT livebox.invocation_resumes(p_run) AS resumes
    ), told AS (
        SELECT p_run.triggering_message_id AS message_id
        UNION
        (SELECT f.message_id
           FROM livebox.run_followups f, invocation
          WHERE f.run_id = p_run.id AND (f.state = 'delivered' OR f.state = 'pending' AND invocation.resumes)
          ORDER BY f.position DESC
          LIMIT 999)
    )
    SELECT jsonb_build_object(
        'kind', CASE WHEN invocation.resumes THEN 'resume' ELSE 'start' END,
        'run', livebox.run_json(p_run),
        'messages', coalesce((SELECT jsonb_agg(livebox.message_json(m) ORDER BY m.thread_seq)
                                FROM livebox.messages m JOIN told ON told.message_id = m.id), '[]'),
        'expires_at', livebox.utc(livebox.invocation_end(p_run, p_limits)))
      FROM invocation
$$;
COMMENT ON FUNCTION livebox.invocation_json(livebox.runs, jsonb) IS
    'One invocation as its agent gets it, but for the token, which is put in outside the database: to start with the message that opened the run, or to resume with its answers too.';
