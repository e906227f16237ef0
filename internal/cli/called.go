package cli

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// calledOnly is an option of the parser of grammar: where the arguments begin with the names
// of a command, the parser knows none beside it, since reading all tags of a grammar takes
// longer than many commands take. A command with the tag `whole` asks for all of them.
func calledOnly(grammar any, args []string) kong.Option {
	return kong.IgnoreFields(others(reflect.TypeOf(grammar).Elem(), args)...)
}

// others returns what matches the fields of those commands that are not called.
func others(t reflect.Type, args []string) (all []string) {
	called := slices.IndexFunc(slices.Collect(t.Fields()), func(f reflect.StructField) bool {
		return has(f, "cmd") && len(args) > 0 && names(f, args[0])
	})
	if called < 0 || has(t.Field(called), "whole") {
		return nil
	}
	flags := flagFields(t)
	for i := range t.NumField() {
		// kong goes by the name alone: it would leave out a flag of that name as well.
		if name := t.Field(i).Name; i != called && has(t.Field(i), "cmd") && !slices.Contains(flags, name) {
			all = append(all, "^"+regexp.QuoteMeta(t.Name()+"."+name)+"$")
		}
	}
	return append(all, others(t.Field(called).Type, args[1:])...)
}

func has(field reflect.StructField, tag string) bool {
	_, ok := field.Tag.Lookup(tag)
	return ok
}

// names reports whether word is the name of the command in a field, or another one for it.
func names(field reflect.StructField, word string) bool {
	return word == cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)) ||
		slices.Contains(strings.Split(field.Tag.Get("aliases"), ","), word)
}

// flagFields returns the names of the fields in the structs that are embedded in t.
func flagFields(t reflect.Type) (all []string) {
	for field := range t.Fields() {
		if !has(field, "embed") {
			continue
		}
		for flag := range field.Type.Fields() {
			all = append(all, flag.Name)
		}
		all = append(all, flagFields(field.Type)...)
	}
	return all
}
