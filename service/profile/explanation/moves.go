package explanation

// Move is the place of a product in a list, and in another.
type Move struct {
	Near
	Place int // from 1
	Was   int // in the other list; 0: it was not there
	// Nearer says that the cosine is larger than in the other list.
	Nearer bool
}

// Moves says where each product of a list was in another, which may be longer.
func Moves(now, before []Near) []Move {
	places := map[int32]int{}
	for i, n := range before {
		places[n.ProductID] = i + 1
	}
	all := make([]Move, len(now))
	for i, n := range now {
		was := places[n.ProductID]
		all[i] = Move{Near: n, Place: i + 1, Was: was, Nearer: was == 0 || n.Cosine > before[was-1].Cosine}
	}
	return all
}

// Gone returns the first products of the earlier list that are not among the first of now.
func Gone(now, before []Near, first int) (gone []Near) {
	stays := map[int32]bool{}
	for _, n := range now[:min(first, len(now))] {
		stays[n.ProductID] = true
	}
	for _, n := range before[:min(first, len(before))] {
		if !stays[n.ProductID] {
			gone = append(gone, n)
		}
	}
	return gone
}
