CREATE OR REPLACE FUNCTION livebox.create_owner(p_handle text, p_display_name text) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_principal livebox.principals;
BEGIN
    -- Two processes that set an instance up at once wait for each other here.
    PERFORM livebox.lock_log();
    SELECT * INTO v_principal FROM livebox.principals p WHERE lower(p.handle) = lower(p_handle);
    IF NOT FOUND THEN
        INSERT INTO livebox.principals (kind, handle, display_name, role)
        VALUES ('person', p_handle, p_display_name, 'owner') RETURNING * INTO v_principal;
    END IF;
    RETURN CASE WHEN v_principal.role = 'owner' AND v_principal.status = 'active' THEN v_principal.id END;
END $$;
COMMENT ON FUNCTION livebox.create_owner(text, text) IS
    'The active owner of that handle, made when nobody has the handle; NULL when it is somebody else''s. How an instance gets its first owner: from the command line, since every operation needs a caller.';
