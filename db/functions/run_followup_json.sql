CREATE OR REPLACE FUNCTION livebox.run_followup_json(p_followup livebox.run_followups, p_whole boolean) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('followup', jsonb_build_object(
               'message_id', p_followup.message_id,
               'position', p_followup.position,
               'state', p_followup.state,
               'at', livebox.utc(p_followup.at)))
           || CASE WHEN p_whole
                   THEN (SELECT jsonb_build_object('message', livebox.message_json(m))
                           FROM livebox.messages m WHERE m.id = p_followup.message_id)
                   ELSE '{}' END
$$;
COMMENT ON FUNCTION livebox.run_followup_json(livebox.run_followups, boolean) IS 'A follow-up, with its message where p_whole.';
