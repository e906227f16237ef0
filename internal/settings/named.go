package settings

import (
	"reflect"
	"regexp"
)

// Named returns err, in which a room names the fields of its configuration, with the
// variables of those settings of a section that are bound to these fields, or that are bound
// to nothing and named alike: a room does not know what a program lets its operator set, nor
// by which name. The config of a section whose settings are all unbound is nil.
func Named(section, config any, err error) error {
	if err == nil {
		return nil
	}
	variables := variables(reflect.ValueOf(section).Elem(), reflect.Indirect(reflect.ValueOf(config)))
	return &named{word.ReplaceAllStringFunc(err.Error(), func(name string) string {
		if variable, ok := variables[name]; ok {
			return variable
		}
		return name
	}), err}
}

// variables returns the variables of section by the names of the fields.
func variables(section, fields reflect.Value) map[string]string {
	found := map[string]string{}
	for i := range section.NumField() {
		field := section.Type().Field(i)
		variable := field.Tag.Get("env")
		if !field.IsExported() || variable == "" {
			continue
		}
		v, ok := section.Field(i).Addr().Interface().(setting)
		if !ok || v.address() == 0 {
			found[field.Name] = variable
			continue
		}
		for f := 0; fields.IsValid() && f < fields.NumField(); f++ {
			if v.address() == fields.Field(f).Addr().Pointer() {
				found[fields.Type().Field(f).Name] = variable
			}
		}
	}
	return found
}

// named is an error with another text.
type named struct {
	text string
	err  error
}

func (n *named) Error() string { return n.text }

func (n *named) Unwrap() error { return n.err }

// word matches what may be a name. A quoted value and a path are one word: they are no
// names, whatever is in them.
var word = regexp.MustCompile(`"(?:\\.|[^"\\])*"|[^\s"(),:;=]+`)
