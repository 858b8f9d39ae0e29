CREATE OR REPLACE FUNCTION livebox.find_named(args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_name text := args->>'name';
    v_id   uuid;
BEGIN
    CASE args->>'kind'
    WHEN 'principal' THEN
        SELECT p.id INTO v_id FROM livebox.principals p WHERE lower(p.handle) = lower(v_name);
    WHEN 'group' THEN
        SELECT g.id INTO v_id FROM livebox.groups g WHERE lower(g.name) = lower(v_name);
    WHEN 'space' THEN
        SELECT s.id INTO v_id FROM livebox.spaces s WHERE s.name = v_name ORDER BY s.id LIMIT 1;
    WHEN 'channel' THEN
        SELECT c.id INTO v_id FROM livebox.channels c
         WHERE c.space_id = (args->>'space_id')::uuid AND c.name = v_name ORDER BY c.id LIMIT 1;
    WHEN 'dm' THEN
        SELECT c.id INTO v_id FROM livebox.channels c
         WHERE c.kind = 'dm'
           AND ARRAY(SELECT m.principal_id FROM livebox.channel_members m WHERE m.channel_id = c.id ORDER BY 1)
               = ARRAY(SELECT value::uuid FROM jsonb_array_elements_text(args->'member_ids') ORDER BY 1)
         ORDER BY c.id LIMIT 1;
    WHEN 'main_thread' THEN
        SELECT t.id INTO v_id FROM livebox.threads t WHERE t.channel_id = (args->>'channel_id')::uuid AND t.is_main;
    WHEN 'grant' THEN
        SELECT g.id INTO v_id FROM livebox.grants g
         WHERE coalesce(g.principal_id, g.group_id) = (args->>'holder_id')::uuid
           AND coalesce(g.space_id, g.channel_id) = (args->>'place_id')::uuid AND g.level = args->>'level';
    END CASE;
    IF v_id IS NULL THEN
        RETURN livebox.refused('not_found');
    END IF;
    RETURN livebox.done('ok', jsonb_build_object('id', v_id));
END $$;
COMMENT ON FUNCTION livebox.find_named(jsonb) IS
    'The id of what has a name: {kind, name} and what the name is within. For the command line and the test world only: it asks nobody for rights and no route leads to it.';
