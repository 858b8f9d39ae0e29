CREATE OR REPLACE FUNCTION livebox.create_space(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me    uuid := livebox.caller_id(caller);
    v_space livebox.spaces;
BEGIN
    IF livebox.authorize(v_me, 'structure.manage', '{}') IS NOT NULL THEN
        RETURN livebox.refused('forbidden');
    END IF;
    INSERT INTO livebox.spaces (name, created_by) VALUES (args->'body'->>'name', v_me) RETURNING * INTO v_space;
    PERFORM livebox.append_event('space.created', v_me, jsonb_build_object('space_id', v_space.id), 'space', v_space.id::text,
                                 v_space.version, 'space.read', jsonb_build_object('space', livebox.space_json(v_space)));
    RETURN livebox.done('created', livebox.space_json(v_space), v_space.version, 'space', v_space.id::text);
END $$;
COMMENT ON FUNCTION livebox.create_space(jsonb, jsonb) IS 'createSpace: owners only.';
