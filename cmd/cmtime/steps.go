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

// span contains the start and the end of an operation, in microseconds of clock. end is 0 if
// the operation has not ended.
type span struct{ begin, end int64 }

// epoch is the start of the clock. It is in the past, so that no measured time is 0.
var epoch = time.Now().Add(-time.Microsecond)

func clock() int64 { return time.Since(epoch).Microseconds() }

func (s *span) start() { s.begin = clock() }
func (s *span) stop()  { s.end = clock() }

func (s *span) taken() bool { return s.begin != 0 && s.end != 0 }

// micros returns the duration, which is 0 for an operation that has not ended.
func (s *span) micros() float64 {
	if !s.taken() {
		return 0
	}
	return float64(s.end - s.begin)
}

// noTime is the shortest time of a step without measurements, as printed by the C program.
const noTime = 999999999

// printTable prints the times of each step: for all connections together, for the slowest and
// the fastest, and the mean.
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
