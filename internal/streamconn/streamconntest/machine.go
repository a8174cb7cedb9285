// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"context"
	"sync"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// RXE returns a fake kernel with two devices of rxe. They have the addresses 10.0.0.1 and 10.0.0.2. At the end of the test it
// checks that all objects are closed. It waits for this, because a Close may linger in the background.
func RXE(t testing.TB) *cmtest.Kernel {
	t.Helper()
	return Kernel(t, uverbstest.New("rxe0", "rxe1"))
}

// MLX5 is like RXE with devices of mlx5. Its transfers make no system calls.
func MLX5(t testing.TB) *cmtest.Kernel {
	t.Helper()
	return Kernel(t, inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1"))
}

// StoppableMLX5 is like MLX5. The devices stop while the Locker is locked.
func StoppableMLX5(t testing.TB) (*cmtest.Kernel, sync.Locker) {
	t.Helper()
	devices := inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1")
	return Kernel(t, devices), devices.Fabric
}

// Kernel is like RXE with other devices.
func Kernel(t testing.TB, devices uverbs.Kernel) *cmtest.Kernel {
	t.Helper()
	k := cmtest.New(devices)
	t.Cleanup(func() {
		if left := left(k); len(left) > 0 {
			t.Errorf("Left() = %q, want nothing", left)
		}
	})
	return k
}

// left waits until all objects are closed, and returns the open ones.
func left(k *cmtest.Kernel) []string {
	for end := time.Now().Add(Limit); len(k.Left()) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return k.Left()
}

// OnMachines runs a test on fake kernels with different drivers.
func OnMachines(t *testing.T, test func(t *testing.T, k *cmtest.Kernel)) {
	for name, machine := range map[string]func(testing.TB) *cmtest.Kernel{"rxe": RXE, "mlx5": MLX5} {
		t.Run(name, func(t *testing.T) { test(t, machine(t)) })
	}
}

// Deadline returns a context that ends after Limit, or with the test.
func Deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}
