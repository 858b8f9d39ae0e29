-- Cut between characters, never inside one; the size that counts is that of the whole object as JSON text.
CREATE OR REPLACE FUNCTION livebox.original_reason(p_reason text, p_max_bytes bigint) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_fits   integer := 0;
    v_over   integer := char_length(p_reason) + 1;
    v_middle integer;
BEGIN
    IF p_reason ~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]' THEN
        RETURN '{}';
    END IF;
    WHILE v_over - v_fits > 1 LOOP
        v_middle := (v_fits + v_over) / 2;
        IF octet_length(jsonb_build_object('original_reason', left(p_reason, v_middle))::text) <= p_max_bytes THEN
            v_fits := v_middle;
        ELSE
            v_over := v_middle;
        END IF;
    END LOOP;
    RETURN CASE WHEN v_fits = 0 THEN '{}' ELSE jsonb_build_object('original_reason', left(p_reason, v_fits)) END;
END $$;
COMMENT ON FUNCTION livebox.original_reason(text, bigint) IS
    'What an adapter gave as reason, as the detail of a step of at most p_max_bytes; empty for one with control or bidirectional characters.';
