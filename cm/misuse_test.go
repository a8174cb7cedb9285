// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/verbs"
)

func TestStateErrorNamesTheStates(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.fail[abi.RDMA_USER_CM_CMD_JOIN_MCAST] = syscall.EINVAL
	_, err := id.JoinMulticast(mustAddr("239.1.1.1:0"), FullMember)
	var se *StateError
	if !errors.As(err, &se) || !strings.Contains(err.Error(), `the ID is "idle", it must be "bound" or "address resolved"`) {
		t.Errorf("JoinMulticast() = %v, want a StateError with the possible states", err)
	}
}

// TestClosedComesFirst checks that every call on a closed ID returns net.ErrClosed before it
// checks its arguments.
func TestClosedComesFirst(t *testing.T) {
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	id.Close()
	for name, err := range map[string]error{
		"Connect":     id.Connect(nil),
		"Accept":      id.Accept(nil),
		"CreateQP":    id.CreateQP(nil, verbs.QPConfig{}),
		"UseQP":       id.UseQP(nil),
		"CreateSRQ":   id.CreateSRQ(nil, verbs.SRQConfig{}),
		"SetLocalECE": id.SetLocalECE(verbs.ECE{}),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s of a closed ID = %v, want net.ErrClosed", name, err)
		}
	}
}
