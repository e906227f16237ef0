package openapitest

import (
	"fmt"
	"slices"
)

// fits checks a value against the part of JSON Schema that the descriptions use.
func (d Description) fits(v, schema any) error {
	s, ok := d.from(schema).(map[string]any)
	if !ok {
		return fmt.Errorf("%v has no schema", v)
	}
	if choices, ok := s["oneOf"].([]any); ok {
		fitting := 0
		var last error
		for _, choice := range choices {
			if err := d.fits(v, choice); err != nil {
				last = err
			} else {
				fitting++
			}
		}
		if fitting != 1 {
			return fmt.Errorf("%d of the choices fit: %w", fitting, last)
		}
		return nil
	}
	if c, ok := s["const"]; ok && c != v {
		return fmt.Errorf("%v is not %v", v, c)
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		return fmt.Errorf("%v is not listed", v)
	}
	types, ok := s["type"].([]any)
	if !ok {
		types = []any{s["type"]}
	}
	kinds := kindsOf(v)
	if !slices.ContainsFunc(types, func(t any) bool { return slices.Contains(kinds, t) }) {
		return fmt.Errorf("%v should be %v", v, types)
	}
	return d.fitsBounds(v, s)
}

// kindsOf returns the types of JSON Schema that a value has.
func kindsOf(v any) []any {
	switch v := v.(type) {
	case nil:
		return []any{"null"}
	case bool:
		return []any{"boolean"}
	case string:
		return []any{"string"}
	case []any:
		return []any{"array"}
	case float64:
		if v == float64(int64(v)) {
			return []any{"number", "integer"}
		}
		return []any{"number"}
	}
	return []any{"object"}
}

// fitsBounds checks what a value of the right type holds. No text is empty, unless the
// schema has the minLength 0, and no
// number is below the minimum, 0 where the schema has none.
func (d Description) fitsBounds(v any, s map[string]any) error {
	switch v := v.(type) {
	case string:
		if least, given := s["minLength"].(float64); v == "" && (!given || least > 0) {
			return fmt.Errorf("the text is empty")
		}
	case float64:
		if least, _ := s["minimum"].(float64); v < least {
			return fmt.Errorf("%v should be at least %v", v, least)
		}
	case []any:
		if most, ok := s["maxItems"].(float64); ok && len(v) > int(most) {
			return fmt.Errorf("%d items", len(v))
		}
		for _, item := range v {
			if err := d.fits(item, s["items"]); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.fitsObject(v, s)
	}
	return nil
}

func (d Description) fitsObject(v, s map[string]any) error {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, value := range v {
		schema, ok := properties[name]
		if !ok && s["additionalProperties"] == false {
			return fmt.Errorf("%s is not described", name)
		}
		if ok {
			if err := d.fits(value, schema); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
