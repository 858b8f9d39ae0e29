CREATE OR REPLACE FUNCTION livebox.create_group(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me    uuid := livebox.caller_id(caller);
    v_group livebox.groups;
BEGIN
    IF livebox.authorize(v_me, 'structure.manage', '{}') IS NOT NULL THEN
        RETURN livebox.refused('forbidden');
    END IF;
    INSERT INTO livebox.groups (name, created_by) VALUES (args->'body'->>'name', v_me)
    ON CONFLICT (lower(name)) DO NOTHING
    RETURNING * INTO v_group;
    IF NOT FOUND THEN
        RETURN livebox.refused('name_taken');
    END IF;
    RETURN livebox.done('created', livebox.group_json(v_group), v_group.version, 'group', v_group.id::text);
END $$;
COMMENT ON FUNCTION livebox.create_group(jsonb, jsonb) IS 'createGroup: owners only. Names are unique whatever their case.';
