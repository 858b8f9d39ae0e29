CREATE OR REPLACE FUNCTION livebox.cut_text(p_text text, p_bytes bigint) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_raw bytea := convert_to(p_text, 'UTF8');
    v_end integer := p_bytes;
BEGIN
    IF octet_length(v_raw) <= p_bytes THEN
        RETURN p_text;
    END IF;
    WHILE v_end > 0 AND get_byte(v_raw, v_end) & 192 = 128 LOOP  -- a continuation byte: the character began before
        v_end := v_end - 1;
    END LOOP;
    RETURN convert_from(substring(v_raw FOR v_end), 'UTF8');
END $$;
COMMENT ON FUNCTION livebox.cut_text(text, bigint) IS 'The longest beginning of a text that fits into so many bytes of UTF-8, cut between characters.';
