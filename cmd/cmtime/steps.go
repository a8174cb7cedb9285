// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"time"

	"purerdma/cmd/internal/tool"
)

// step is one step of a connection's life.
type step int

const (
	stepCreateID step = iota
	stepBind
	stepResolveAddr
	stepResolveRoute
	stepCreateQP
	stepConnect
	stepDisconnect
	stepDestroy
	numSteps = iota
)

var stepNames = [numSteps]string{
	stepCreateID:     "create id",
	stepBind:         "bind addr",
	stepResolveAddr:  "resolve addr",
	stepResolveRoute: "resolve route",
	stepCreateQP:     "create qp",
	stepConnect:      "connect",
	stepDisconnect:   "disconnect",
	stepDestroy:      "destroy",
}

// span is when something began and ended, in microseconds of clock; an end of 0
// is one that never came.
type span struct{ begin, end int64 }

// epoch is where the clock starts; so no time that is taken is 0.
var epoch = time.Now().Add(-time.Microsecond)

func clock() int64 { return time.Since(epoch).Microseconds() }

func (s *span) start() { s.begin = clock() }
func (s *span) stop()  { s.end = clock() }

func (s *span) taken() bool { return s.begin != 0 && s.end != 0 }

// micros is how long it took; what began and did not end took no time.
func (s *span) micros() float64 {
	if !s.taken() {
		return 0
	}
	return float64(s.end - s.begin)
}

// noTime is the shortest time of a step that nothing took, as the C program
// prints it.
const noTime = 999999999

// printTable prints the times of each step: of all connections together, of the
// slowest, of the fastest, and the mean.
func printTable(u *tool.UI, totals *[numSteps]span, conns []*conn, bound bool) {
	u.Printf("step              total ms     max ms     min us  us / conn\n")
	for s := range step(numSteps) {
		if s == stepBind && !bound {
			continue
		}
		slowest, fastest := 0.0, float64(float32(noTime))
		for _, c := range conns {
			if c.times[s].taken() {
				slowest, fastest = max(slowest, c.times[s].micros()), min(fastest, c.times[s].micros())
			}
		}
		total := totals[s].micros()
		u.Printf("%-13s: %11.2f%11.2f%11.2f%11.2f\n", stepNames[s], total/1000, slowest/1000, fastest,
			total/math.Max(float64(len(conns)), 1))
	}
}
