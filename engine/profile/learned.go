package profile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Learned says which components of the products' vectors were learned from the shop's own
// events: the last ones, by the training that the generation names. The zero value: none.
type Learned struct {
	Components int
	Generation string // eight hexadecimal digits
}

// MaxLearned is the most components that are learned.
const MaxLearned = 1024

var learnedForm = regexp.MustCompile(`^([1-9][0-9]{0,3}):([0-9a-f]{8})$`)

// String writes it as settings have it, such as 128:3f9a2c41; "" for none.
func (l Learned) String() string {
	if l.Components == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%s", l.Components, l.Generation)
}

// UnmarshalText reads what String writes.
func (l *Learned) UnmarshalText(text []byte) error {
	*l = Learned{}
	if len(text) == 0 {
		return nil
	}
	parts := learnedForm.FindStringSubmatch(string(text))
	if parts == nil {
		return errors.New("as `products learn` prints it, such as 128:3f9a2c41 (components:generation)")
	}
	n, _ := strconv.Atoi(parts[1]) // four digits at most
	if n > MaxLearned {
		return fmt.Errorf("of at most %d components", MaxLearned)
	}
	*l = Learned{Components: n, Generation: parts[2]}
	return nil
}

// learnedMark stands between the name of a model of texts and what was learned.
const learnedMark = "+learned-"

// Model returns the name of the model whose vectors have these components behind those of the
// model text: vectors of two trainings cannot be compared.
func (l Learned) Model(text string) string {
	if l.Components == 0 {
		return text
	}
	return text + learnedMark + l.String()
}

// TextModel returns the name of the model of texts alone.
func TextModel(model string) string {
	if l := LearnedIn(model); l.Components > 0 {
		return strings.TrimSuffix(model, learnedMark+l.String())
	}
	return model
}

// LearnedIn returns what a model of that name has learned; none where it is one of texts alone.
func LearnedIn(model string) (l Learned) {
	if _, tail, found := strings.Cut(model, learnedMark); found {
		_ = l.UnmarshalText([]byte(tail)) // of another form: a model of texts
	}
	return l
}
