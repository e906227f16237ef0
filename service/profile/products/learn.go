package products

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"math"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/source/catalog/learned"
	"keyfold/source/outbox"
)

// Learning says what vectors are learned of, and how.
type Learning struct {
	TextModel      string // of the vectors that the catalogue has
	TextDimensions int
	Components     int
	Share          float64 // of the learned vector, see [learned.Weights]
	Pause          engine.Millis
	Memory         int64 // bytes that learning may take

	// Progress hears of each part of the work: how much is done, and of how much (0: that is
	// not known).
	Progress func(what string, done, of int)
}

// Lesson is what was learned.
type Lesson struct {
	Counts
	learning Learning
	ids      []int32 // of the catalogue, ascending
	vectors  [][]float32
	model    profile.Learned
}

// Counts say what a lesson is of.
type Counts struct {
	Events   int   `json:"events"`   // of known products, and searches
	Unknown  int   `json:"unknown"`  // events of products that the catalogue does not have
	Users    int   `json:"users"`    // with events
	Sessions int   `json:"sessions"` // with two products or more
	Dropped  int64 `json:"dropped_pairs"`
	Products int   `json:"products"` // of the catalogue
	Learned  int   `json:"learned"`  // of those, with a learned vector
}

const (
	// What learning takes of memory, measured: for each pair while pairs are merged, beside
	// the pairs that wait; for each component of a product.
	bytesPerPair      = 40
	bytesAtRest       = 96 << 20
	bytesPerComponent = 32
	// fewestPairs is how many pairs there must be room for.
	fewestPairs = 1 << 20
	mostPairs   = 64 << 20
)

// pairs returns how many pairs there is room for.
func (l *Learning) pairs(products int) (int, error) {
	atRest := int64(bytesAtRest) + int64(products)*int64(l.Components+16)*bytesPerComponent
	if n := (l.Memory - atRest) / bytesPerPair; n >= fewestPairs {
		return int(min(n, mostPairs)), nil
	}
	return 0, fmt.Errorf("learning %d components of %d products takes %d MB: set %s=%dM, or learn fewer components",
		l.Components, products, (atRest+fewestPairs*bytesPerPair)>>20, memorySetting, (atRest+fewestPairs*bytesPerPair)>>20+1)
}

// Learn learns from the history, which is in the order of users and times, and of the
// products of the catalogue alone.
func (l Learning) Learn(ctx context.Context, products iter.Seq2[profile.ProductTime, error], history iter.Seq2[outbox.Interaction, error]) (*Lesson, error) {
	lesson := &Lesson{learning: l}
	for p, err := range products {
		if err != nil {
			return nil, err
		}
		lesson.ids = append(lesson.ids, p.ID)
	}
	slices.Sort(lesson.ids)
	lesson.ids = slices.Compact(lesson.ids)
	lesson.Products = len(lesson.ids)
	room, err := l.pairs(len(lesson.ids))
	if err != nil {
		return nil, err
	}
	pairs := learned.NewPairs(len(lesson.ids), room)
	if err := lesson.read(history, pairs); err != nil {
		return nil, err
	}
	information := learned.Information(pairs.Together())
	lesson.Dropped = pairs.Dropped
	if lesson.vectors, err = learned.Vectors(ctx, information, l.Components, func(step int) { l.Progress("learning", step, learned.Steps) }); err != nil {
		return nil, err
	}
	for _, v := range lesson.vectors {
		if v != nil {
			lesson.Learned++
		}
	}
	if lesson.Learned == 0 {
		return nil, fmt.Errorf("nothing can be learned: %d events have no session with two products that the catalogue has", lesson.Events)
	}
	lesson.model = profile.Learned{Components: l.Components, Generation: lesson.generation()}
	return lesson, nil
}

// read parts the history into sessions and counts their pairs.
func (l *Lesson) read(history iter.Seq2[outbox.Interaction, error], pairs *learned.Pairs) error {
	sessions := eval.Sessions{Pause: l.learning.Pause, Each: func(session []int32) {
		if len(session) > 1 {
			l.Sessions++
		}
		pairs.Add(session)
	}}
	user := int32(0)
	for i, err := range history {
		if err != nil {
			return err
		}
		if i.UserID != user {
			sessions.End()
			user = i.UserID
			l.Users++
		}
		thing := int32(-1)
		if at, known := slices.BinarySearch(l.ids, i.ProductID); known {
			thing = int32(at)
		}
		if sessions.Add(i.OccurredAt, thing); thing < 0 && i.ProductID != 0 {
			l.Unknown++
		} else if l.Events++; l.Events%progressEvery == 0 {
			l.learning.Progress("reading the history", l.Events, 0)
		}
	}
	sessions.End()
	return nil
}

// progressEvery is after how many events progress is told.
const progressEvery = 4096

// generation is a digest of all that decides whether two hybrid vectors can be compared.
func (l *Lesson) generation() string {
	digest := sha256.New()
	fmt.Fprintf(digest, "1 %q %d %d %v\n", l.learning.TextModel, l.learning.TextDimensions, l.learning.Components, l.learning.Share)
	var bytes []byte
	for i, v := range l.vectors {
		if v == nil {
			continue
		}
		bytes = binary.LittleEndian.AppendUint32(bytes[:0], uint32(l.ids[i]))
		for _, x := range v {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
		}
		digest.Write(bytes)
	}
	return hex.EncodeToString(digest.Sum(nil)[:4])
}

// Setting is EMBEDDING_LEARNED of what was learned.
func (l *Lesson) Setting() profile.Learned { return l.model }

// Model is the name of the hybrid vectors.
func (l *Lesson) Model() string { return l.model.Model(l.learning.TextModel) }

// Dimensions is the length of the hybrid vectors.
func (l *Lesson) Dimensions() int { return l.learning.TextDimensions + l.learning.Components }

// vector returns what was learned of a product, nil for nothing.
func (l *Lesson) vector(id int32) []float32 {
	at, known := slices.BinarySearch(l.ids, id)
	if !known {
		return nil // it is newer than the lesson
	}
	return l.vectors[at]
}
