"""The engine imports ``nixl``; the wheel at hand is ``nixl_cu12``. Host memory is registered as such."""
