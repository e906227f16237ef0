package rule

import (
	"slices"

	"keyfold/engine/notify"
)

// comparison returns the function of a comparison's positive operator.
func comparison(c *Condition) func(*notify.Input) bool {
	o, _ := operatorOf(c.Operator).positive()
	return o.compile(fieldOf(c.Field), c)
}

func hasNull(values []notify.Value) bool {
	return slices.ContainsFunc(values, func(v notify.Value) bool { return v.Kind == notify.Null })
}

func (f *field) anyOf(values []notify.Value) func(*notify.Input) bool {
	var mask uint
	for _, v := range values {
		switch v.Kind {
		case notify.Null:
			mask |= 1
		case notify.String:
			mask |= 2 << slices.Index(f.words, v.Text)
		case notify.Bool:
			if v.Bool {
				mask |= 1 << 2
			} else {
				mask |= 1 << 1
			}
		}
	}
	set := f.set
	return func(in *notify.Input) bool { return set(in)&mask != 0 }
}

func (f *field) equalText(values []notify.Value) func(*notify.Input) bool {
	text, texts := f.text, textsOf(values)
	if hasNull(values) {
		texts = slices.Insert(texts, 0, "") // which is null
	}
	if len(texts) == 1 {
		only := texts[0]
		return func(in *notify.Input) bool { return text(in) == only }
	}
	return func(in *notify.Input) bool { _, found := slices.BinarySearch(texts, text(in)); return found }
}

// textsOf returns the strings among the values, in order.
func textsOf(values []notify.Value) (texts []string) {
	for _, v := range values {
		if v.Kind == notify.String {
			texts = append(texts, v.Text)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func (f *field) equalNumber(values []notify.Value) func(*notify.Input) bool {
	number, null := f.number, hasNull(values)
	var numbers []int64
	for _, v := range values {
		if n, exact := v.Number.Floor(f.places); exact && v.Kind == notify.Number {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return func(in *notify.Input) bool {
		n, there := number(in)
		if !there {
			return null
		}
		_, found := slices.BinarySearch(numbers, n)
		return found
	}
}

func (f *field) equalValue(values []notify.Value) func(*notify.Input) bool {
	null, texts := hasNull(values), textsOf(values)
	var numbers []notify.Decimal
	var bools [2]bool // false, true
	for _, v := range values {
		switch v.Kind {
		case notify.Number:
			numbers = append(numbers, v.Number)
		case notify.Bool:
			bools[0], bools[1] = bools[0] || !v.Bool, bools[1] || v.Bool
		}
	}
	slices.SortFunc(numbers, notify.Decimal.Compare)
	onlyNull := len(texts)+len(numbers) == 0 && bools == [2]bool{}
	return func(in *notify.Input) (found bool) {
		switch v := f.value(in); {
		case v.Kind <= notify.Null:
			return null
		case onlyNull:
			return false
		case v.Kind == notify.String && len(texts) > 0:
			_, found = slices.BinarySearch(texts, v.Text)
		case v.Kind == notify.Number && len(numbers) > 0:
			_, found = slices.BinarySearchFunc(numbers, v.Number, notify.Decimal.Compare)
		case v.Kind == notify.Bool && bools != [2]bool{}:
			found = v.Bool && bools[1] || !v.Bool && bools[0]
		}
		return found
	}
}
