package learned

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"keyfold/internal/testserver/must"
)

// randomSessions are some of few things.
func randomSessions(seed uint64, things, n int) (sessions [][]int32) {
	r := rand.New(rand.NewPCG(seed, 3))
	for range n {
		var session []int32
		for range 1 + r.IntN(6) {
			if thing := int32(r.IntN(1 + r.IntN(things))); !slices.Contains(session, thing) {
				session = append(session, thing)
			}
		}
		sessions = append(sessions, session)
	}
	return sessions
}

func count(sessions [][]int32, things, limit int) *Pairs {
	p := NewPairs(things, limit)
	for _, session := range sessions {
		p.Add(session)
	}
	return p
}

// slowInformation is the formula, with the counts of each pair counted by itself.
func slowInformation(sessions [][]int32, things int) [][]float64 {
	together := func(a, b int32) (n float64) {
		for _, session := range sessions {
			if a != b && slices.Contains(session, a) && slices.Contains(session, b) {
				n++
			}
		}
		return n
	}
	sum, smooth := make([]float64, things), 0.0
	for a := range things {
		for b := range things {
			sum[a] += together(int32(a), int32(b))
		}
		smooth += math.Pow(sum[a], 0.75)
	}
	all := make([][]float64, things)
	for a := range things {
		all[a] = make([]float64, things)
		for b := range things {
			n := together(int32(a), int32(b))
			one := math.Log(n / (sum[a] * math.Pow(sum[b], 0.75) / smooth))
			other := math.Log(n / (sum[b] * math.Pow(sum[a], 0.75) / smooth))
			if n > 0 {
				all[a][b] = max(0, (one+other)/2)
			}
		}
	}
	return all
}

// The information is that of the formula, element by element.
func TestInformationEqualsTheFormula(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		things := 1 + int(seed)%17
		sessions := randomSessions(seed, things, int(seed)*2)
		got, want := Information(count(sessions, things, 1000).Together()), slowInformation(sessions, things)
		for i := range things {
			dense := make([]float64, things)
			columns, values := got.Row(int32(i))
			if !slices.IsSorted(columns) {
				t.Fatalf("seed %d: row %d has columns %v", seed, i, columns)
			}
			for k, j := range columns {
				dense[j] = values[k]
			}
			if floats.Distance(dense, want[i], math.Inf(1)) > 1e-12 {
				t.Fatalf("seed %d: row %d is %v, want %v", seed, i, dense, want[i])
			}
		}
	}
}

// With as many components as things, products of vectors are the nearest matrix to the
// information that has no negative eigenvalue.
func TestVectorsEqualTheEigenvectors(t *testing.T) {
	t.Parallel()
	const things = 12
	for seed := range uint64(10) {
		sessions := randomSessions(seed, things, 60)
		vectors, err := Vectors(t.Context(), Information(count(sessions, things, 1000).Together()), things, nil)
		must.OK(t, err)
		dense := slices.Concat(slowInformation(sessions, things)...)
		var eigen mat.EigenSym
		if !eigen.Factorize(mat.NewSymDense(things, dense), true) {
			t.Fatal("no eigenvectors")
		}
		var basis mat.Dense
		eigen.VectorsTo(&basis)
		for i := range things {
			for j := range things {
				var want, got float64
				for k, value := range eigen.Values(nil) {
					want += max(0, value) * basis.At(i, k) * basis.At(j, k)
				}
				if vectors[i] != nil && vectors[j] != nil {
					for k := range things {
						got += float64(vectors[i][k]) * float64(vectors[j][k])
					}
				}
				if math.Abs(got-want) > 1e-5 {
					t.Errorf("seed %d: %d and %d have %v, want %v", seed, i, j, got, want)
				}
			}
		}
	}
}

// planted are sessions of topics, with some noise.
func planted(topics, size, n int) (sessions [][]int32) {
	r := rand.New(rand.NewPCG(1, 1))
	for range n {
		topic := r.IntN(topics)
		var session []int32
		for range 5 {
			thing := int32(topic*size + r.IntN(size))
			if r.IntN(10) == 0 {
				thing = int32(r.IntN(topics * size))
			}
			if !slices.Contains(session, thing) {
				session = append(session, thing)
			}
		}
		sessions = append(sessions, session)
	}
	return sessions
}

// Things of one topic are nearer to each other than to all others, but for a few.
func TestPlantedTopicsAreFound(t *testing.T) {
	t.Parallel()
	const topics, size = 20, 20
	vectors, err := Vectors(t.Context(), Information(count(planted(topics, size, 6000), topics*size, DefaultPairs).Together()), 32, nil)
	must.OK(t, err)
	wrong := 0
	for i, v := range vectors {
		best, nearest := -2.0, -1
		for j, w := range vectors {
			joined, other := Join(nil, v, 1, 32, 1), Join(nil, w, 1, 32, 1)
			var cosine float64
			for k := range joined {
				cosine += float64(joined[k]) * float64(other[k])
			}
			if i != j && cosine > best {
				best, nearest = cosine, j
			}
		}
		if i/size != nearest/size {
			wrong++
		}
	}
	if wrong > topics*size/50 {
		t.Errorf("%d of %d things are nearest to one of another topic", wrong, topics*size)
	}
}

// The same sessions have the same bytes, on one processor and on several, and however seldom
// pairs are merged; where there is no room for all pairs, those of many sessions stay.
func TestSameBytes(t *testing.T) {
	sessions := planted(20, 20, 3000)
	learn := func(limit int) (string, *Pairs) {
		pairs := count(sessions, 400, limit)
		vectors, err := Vectors(t.Context(), Information(pairs.Together()), 16, nil)
		must.OK(t, err)
		return fmt.Sprint(vectors), pairs
	}
	want, _ := learn(DefaultPairs)
	before := runtime.GOMAXPROCS(1)
	one, _ := learn(DefaultPairs)
	runtime.GOMAXPROCS(before)
	if one != want {
		t.Error("one processor has other bytes")
	}
	few, pairs := learn(2000)
	again, _ := learn(2000)
	if few != again || pairs.Dropped == 0 || len(pairs.keys) > 2000 {
		t.Errorf("%d pairs dropped, %d kept", pairs.Dropped, len(pairs.keys))
	}
}

// Pairs that are merged often are counted as those that are merged once, and are those of a map.
func TestPairsEqualAMap(t *testing.T) {
	t.Parallel()
	sessions := randomSessions(5, 30, 500)
	whole, often := count(sessions, 30, 1000), NewPairs(30, 1000)
	want := map[[2]int32]float64{}
	for _, session := range sessions {
		often.Add(session)
		often.merge()
		for _, a := range session {
			for _, b := range session {
				if a != b {
					want[[2]int32{a, b}]++
				}
			}
		}
	}
	if !slices.Equal(whole.Sessions, often.Sessions) {
		t.Error("other sessions")
	}
	for _, m := range []*Matrix{whole.Together(), often.Together()} {
		got := map[[2]int32]float64{}
		for i := range int32(m.Size()) {
			columns, values := m.Row(i)
			for k, j := range columns {
				got[[2]int32{i, j}] = values[k]
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// Nothing is learned of nothing, of one thing, and after the end of the context.
func TestVectorsOfLittle(t *testing.T) {
	t.Parallel()
	for _, sessions := range [][][]int32{nil, {{0}}, {{0, 1}}} {
		vectors, err := Vectors(t.Context(), Information(count(sessions, 3, 10).Together()), 4, nil)
		if err != nil || len(vectors) != 3 || vectors[2] != nil {
			t.Errorf("%v: %v, %v", sessions, vectors, err)
		}
	}
	if vectors, err := Vectors(t.Context(), Information(NewPairs(0, 10).Together()), 4, nil); err != nil || len(vectors) != 0 {
		t.Errorf("%v, %v", vectors, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Vectors(ctx, Information(NewPairs(3, 10).Together()), 4, nil); err == nil {
		t.Error("it does not look at its context")
	}
}
