package learned

import "math"

// smoothing is the power of the context counts.
const smoothing = 0.75

// Information makes of the counts the positive pointwise mutual information of each pair,
// made symmetric; the counts are gone.
//
// Source: Levy and Goldberg, "Neural Word Embedding as Implicit Matrix Factorization",
// NIPS 2014, with context counts to the power of 0.75 (Levy, Goldberg, Dagan, TACL 2015).
func Information(counts *Matrix) *Matrix {
	things := counts.Size()
	logs, smoothed := make([]float64, things), 0.0 // of each thing's pairs; all to the power
	for i := range things {
		_, values := counts.Row(int32(i))
		var sum float64
		for _, n := range values {
			sum += n
		}
		logs[i] = math.Log(sum)
		smoothed += math.Pow(sum, smoothing)
	}
	// The mean of log(n smoothed / (sum(i) sum(j)^smoothing)) and of the same with i for j.
	total, half, kept, from := math.Log(smoothed), (1+smoothing)/2, 0, 0
	for i := range things {
		to := counts.start[i+1]
		counts.start[i] = kept
		for k := from; k < to; k++ {
			j := counts.index[k]
			if v := math.Log(counts.value[k]) + total - half*(logs[i]+logs[j]); v > 0 {
				counts.index[kept], counts.value[kept] = j, v
				kept++
			}
		}
		from = to
	}
	counts.start[things] = kept
	counts.index, counts.value = counts.index[:kept], counts.value[:kept]
	return counts
}
