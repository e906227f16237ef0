package kubernetes

import (
	"fmt"
	"slices"
	"strconv"
)

// schema is what of a CustomResourceDefinition's schema the manifests meet.
type schema struct {
	Type        string            `json:"type"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Values      *schema           `json:"additionalProperties"`
	Items       *schema           `json:"items"`
	Enum        []any             `json:"enum"`
	IntOrString bool              `json:"x-kubernetes-int-or-string"`
}

// check returns the first field that is unknown, missing or of another type. An object's
// apiVersion, kind and metadata are Kubernetes' own.
func (s *schema) check(path string, value any) error {
	if s.IntOrString {
		return nil
	}
	if s.Enum != nil && !slices.Contains(s.Enum, value) {
		return fmt.Errorf("%s is %v, and none of %v", path, value, s.Enum)
	}
	switch value := value.(type) {
	case map[string]any:
		if s.Type == "object" {
			return s.checkObject(path, value)
		}
	case []any:
		if s.Type == "array" && s.Items != nil {
			for i, item := range value {
				if err := s.Items.check(path+"["+strconv.Itoa(i)+"]", item); err != nil {
					return err
				}
			}
			return nil
		}
	case string:
		if s.Type == "string" {
			return nil
		}
	case bool:
		if s.Type == "boolean" {
			return nil
		}
	case int, int64, float64:
		if s.Type == "integer" || s.Type == "number" {
			return nil
		}
	}
	return fmt.Errorf("%s is a %T, and no %s", path, value, s.Type)
}

func (s *schema) checkObject(path string, object map[string]any) error {
	for _, name := range s.Required {
		if _, there := object[name]; !there {
			return fmt.Errorf("%s has no %s", path, name)
		}
	}
	for name, value := range object {
		field, known := s.Properties[name]
		switch {
		case path == "" && name == "metadata":
			continue
		case !known && s.Values == nil:
			return fmt.Errorf("%s has no field %s", path, name)
		case !known:
			field = *s.Values
		}
		if err := field.check(path+"."+name, value); err != nil {
			return err
		}
	}
	return nil
}
