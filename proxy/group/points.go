package group

import "time"

// Point is what all members together counted in the 5 seconds before Time.
type Point struct {
	Time        time.Time `json:"time"`
	Exchanges   uint64    `json:"exchanges"`
	Failed      uint64    `json:"failed"`
	Refused     uint64    `json:"refused"`
	Logins      uint64    `json:"logins"`
	LoginsLost  uint64    `json:"logins_lost"`
	Fills       uint64    `json:"fills"`
	FillsFailed uint64    `json:"fills_failed"`
	Added50     float64   `json:"added_50"` // seconds that the proxy added to half of the exchanges at most; 0: there were none
	Added99     float64   `json:"added_99"` // the same for 99 of 100
}

// Points adds up what members have counted in the ten minutes before now, the
// newest last.
func (g *Group) Points(members []Member, now time.Time) []Point { return add(members, g.bounds, now) }

func add(members []Member, bounds []float64, now time.Time) []Point {
	points := make([]Point, keep)
	added := make([][]uint64, keep)
	first := now.Truncate(Every).Add(-(keep - 1) * Every)
	for i := range points {
		points[i].Time = first.Add(time.Duration(i) * Every).UTC()
	}
	for _, m := range members {
		for _, s := range m.Samples {
			i := int((s.End - first.Unix()) / int64(Every/time.Second))
			if s.End < first.Unix() || i >= keep {
				continue
			}
			p := &points[i]
			p.Exchanges += s.Exchanges
			p.Failed += s.Failed
			p.Refused += s.Refused
			p.Logins += s.Logins
			p.LoginsLost += s.LoginsLost
			p.Fills += s.Fills
			p.FillsFailed += s.FillsFailed
			if len(s.Added) == len(bounds)+1 { // else of another version
				if added[i] == nil {
					added[i] = make([]uint64, len(s.Added))
				}
				for b, n := range s.Added {
					added[i][b] += n
				}
			}
		}
	}
	for i, buckets := range added {
		points[i].Added50, points[i].Added99 = quantile(0.5, buckets, bounds), quantile(0.99, buckets, bounds)
	}
	return points
}

// quantile is Prometheus's histogram_quantile: within a bucket, values are taken
// to lie evenly; above the last bound, they are that bound.
func quantile(q float64, buckets []uint64, bounds []float64) float64 {
	var all uint64
	for _, n := range buckets {
		all += n
	}
	if all == 0 {
		return 0
	}
	rank, below, low := q*float64(all), 0.0, 0.0
	for i, high := range bounds {
		n := float64(buckets[i])
		if below+n >= rank {
			return low + (high-low)*(rank-below)/n
		}
		below, low = below+n, high
	}
	return low
}
