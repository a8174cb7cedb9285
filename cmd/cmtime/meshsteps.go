// SPDX-License-Identifier: Apache-2.0

package main

import "purerdma/cmd/internal/tool"

// meshStep is one step of a connection's life in newer versions. The peers exchange its number.
type meshStep int

const (
	meshFullConnect meshStep = iota
	meshCreateID
	meshBind
	meshResolveAddr
	meshResolveRoute
	meshCreateQP
	meshInitAttr
	meshInit
	meshRTRAttr
	meshRTR
	meshRTSAttr
	meshRTS
	meshConnect
	meshEstablish
	meshDisconnect
	meshDestroyID
	meshDestroyQP
	numMeshSteps = iota
)

var meshStepNames = [numMeshSteps]string{
	meshFullConnect:  "full connect",
	meshCreateID:     "create id",
	meshBind:         "bind addr",
	meshResolveAddr:  "resolve addr",
	meshResolveRoute: "resolve route",
	meshCreateQP:     "create qp",
	meshInitAttr:     "init qp attr",
	meshInit:         "init qp",
	meshRTRAttr:      "rtr qp attr",
	meshRTR:          "rtr qp",
	meshRTSAttr:      "rts qp attr",
	meshRTS:          "rts qp",
	meshConnect:      "cm connect",
	meshEstablish:    "establish",
	meshDisconnect:   "disconnect",
	meshDestroyID:    "destroy id",
	meshDestroyQP:    "destroy qp",
}

// printMeshTable prints the times of each step in microseconds.
func printMeshTable(u *tool.UI, totals *[numMeshSteps]span, conns []*meshConn, threads int, qps bool) {
	n := int64(len(conns))
	kind := "cm_conn"
	if qps {
		kind = "qp_conn"
	}
	u.Printf("%s        %10d\nthreads        %10d\n", kind, n, threads)
	u.Printf("step             avg/conn  total(us)    us/conn    sum(us)    max(us)    min(us)\n")
	for s := range meshStep(numMeshSteps) {
		var sum, slowest, fastest int64
		seen := false
		for _, c := range conns {
			if sp := &c.times[s]; sp.taken() {
				us := sp.end - sp.begin
				sum, slowest = sum+us, max(slowest, us)
				if !seen || us < fastest {
					seen, fastest = true, us
				}
			}
		}
		if s == meshFullConnect {
			sum = 0 // the connections were made concurrently
		}
		total := int64(totals[s].micros())
		u.Printf("%-13s  %10d %10d %10d %10d %10d %10d\n", meshStepNames[s], total/n, total, sum/n, sum, slowest, fastest)
	}
}
