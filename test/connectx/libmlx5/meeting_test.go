// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libmlx5

import (
	"testing"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }
