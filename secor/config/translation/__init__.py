"""What importing a configuration of another program needs: properties, a draft, its report."""
