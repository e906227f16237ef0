package settings

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Value is a setting of type T. It keeps its text until [Read] reads all settings
// of a section: a parser that refuses one value hides the faults of the others.
type Value[T any] struct {
	text  string
	given bool
	place *T
}

// Decode implements [kong.MapperValue].
func (v *Value[T]) Decode(c *kong.DecodeContext) error {
	v.given = true
	return c.Scan.PopValueInto("value", &v.text)
}

// Bind says what the setting sets. Its default is what is there before.
func (v *Value[T]) Bind(place *T) { v.place = place }

// Given reports whether the setting was given, by its flag or its variable.
func (v *Value[T]) Given() bool { return v.given }

// Switch is a yes or no; the flag alone means yes.
type Switch struct{ Value[bool] }

// Decode implements [kong.MapperValue].
func (s *Switch) Decode(c *kong.DecodeContext) error {
	s.text, s.given = "true", true
	if c.Scan.Peek().Type == kong.FlagValueToken {
		s.text = fmt.Sprint(c.Scan.Pop().Value)
	}
	return nil
}

// IsBool implements [kong.BoolMapperValue]: the flag takes no value of its own.
func (*Switch) IsBool() bool { return true }

// setting is a [Value] of any type.
type setting interface {
	read() error
	fallback() string
	input() string    // as it was given, or ""
	address() uintptr // of what it sets
}

// Read sets what the settings of a section are bound to. The error names every
// fault with the variable to change; what a faulty setting is bound to stays as it
// is, at its default, so that the rest can be checked without blaming it for that.
func Read(section any) error {
	var faults []error
	s := reflect.ValueOf(section).Elem()
	for i := range s.NumField() {
		if !s.Type().Field(i).IsExported() {
			continue
		}
		if v, ok := s.Field(i).Addr().Interface().(setting); ok {
			if err := v.read(); err != nil {
				faults = append(faults, fmt.Errorf("%s is %w", s.Type().Field(i).Tag.Get("env"), err))
			}
		}
	}
	return errors.Join(faults...)
}

// Defaults is an option of the parser of grammar: help shows the defaults of the
// configuration that the settings set.
func Defaults(grammar any) kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		bind(reflect.ValueOf(grammar).Elem())
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
			if flag, ok := node.(*kong.Flag); ok {
				if v, ok := flag.Target.Addr().Interface().(setting); ok {
					flag.Default = v.fallback()
					flag.PlaceHolder = cmp.Or(flag.Default, flag.PlaceHolder, "VALUE")
				}
			}
			return next(nil)
		})
	})
}

// bind binds the settings of every section in a grammar.
func bind(v reflect.Value) {
	if section, ok := v.Addr().Interface().(interface{ Bind() }); ok {
		section.Bind()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			bind(v.Field(i))
		}
	}
}

func (v *Value[T]) fallback() string { return fmt.Sprint(*v.place) }

func (v *Value[T]) input() string { return v.text }

func (v *Value[T]) address() uintptr { return reflect.ValueOf(v.place).Pointer() }

func (v *Value[T]) read() error {
	if !v.given {
		return nil
	}
	text := strings.TrimSpace(v.text)
	must, ok := "", true
	switch place := any(v.place).(type) {
	case *string:
		*place = v.text
	case *int:
		must, ok = "a whole number", set(place, strconv.Atoi, text)
	case *float64:
		must, ok = "a number", set(place, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, text)
	case *bool:
		must, ok = "true or false", text == "" || set(place, parseSwitch, text)
	case encoding.TextUnmarshaler:
		if err := place.UnmarshalText([]byte(text)); err != nil {
			must, ok = err.Error(), false
		}
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%q: it must be %s", v.text, must)
}

func set[T any](place *T, parse func(string) (T, error), text string) bool {
	value, err := parse(text)
	if err == nil {
		*place = value
	}
	return err == nil
}

func parseSwitch(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, strconv.ErrSyntax
}

// Seconds is a duration that is given as a number of seconds or with its unit (1m30s).
type Seconds time.Duration

// UnmarshalText reads the duration.
func (s *Seconds) UnmarshalText(text []byte) error {
	return parseDuration(string(text), time.Second, "seconds", (*time.Duration)(s))
}

// String writes whole hours as such, and otherwise a number of seconds.
func (s Seconds) String() string {
	if d := time.Duration(s); d > 0 && d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprint(time.Duration(s).Seconds())
}

// Milliseconds is a duration that is given as a number of milliseconds or with its unit.
type Milliseconds time.Duration

// UnmarshalText reads the duration.
func (m *Milliseconds) UnmarshalText(text []byte) error {
	return parseDuration(string(text), time.Millisecond, "milliseconds", (*time.Duration)(m))
}

func (m Milliseconds) String() string { return fmt.Sprint(time.Duration(m).Milliseconds()) }

func parseDuration(text string, unit time.Duration, units string, into *time.Duration) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		*into = time.Duration(n * float64(unit))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("a number of %s or a duration such as 1m30s", units)
	}
	*into = d
	return nil
}

// Bytes is a size: a plain number of bytes, or one with K, M or G (powers of 1024, as
// PHP's memory_limit has them; MB, MiB and so on mean the same).
type Bytes int64

// UnmarshalText reads the size.
func (b *Bytes) UnmarshalText(text []byte) error {
	digits := strings.ToUpper(string(text))
	digits = strings.TrimSuffix(strings.TrimSuffix(digits, "B"), "I")
	shift := 0
	for i, unit := range []string{"K", "M", "G"} {
		if rest, ok := strings.CutSuffix(digits, unit); ok {
			digits, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n > 1<<50>>shift {
		return errors.New("a size such as 512M")
	}
	*b = Bytes(n << shift)
	return nil
}

func (b Bytes) String() string {
	if b > 0 && b%(1<<20) == 0 {
		return fmt.Sprintf("%dM", b>>20)
	}
	return strconv.FormatInt(int64(b), 10)
}
